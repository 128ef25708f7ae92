"""antiphon ivectors from outside: what cannot give vectors of speakers is refused, and what was there stays.

Usage: ivectors_test.py SOURCE-TREE PROGRAM
"""

import pathlib
import sys
import tempfile
import unittest

import small_system as system
from small_system import RATE, must, run


class Ivectors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temporary.name)
        system.make_corpus(cls.root / "corpus")
        must("features", cls.root / "corpus", "--out", cls.root / "feats", "--sample-rate", RATE, "--kind", "mfcc",
             "--ceps", 13)
        cls.made = cls.root / "made"
        must("ivectors", "--features", cls.root / "feats/feats.scp", "--utt2spk", cls.root / "corpus/utt2spk",
             "--gaussians", 2, "--dim", 2, "--iterations", 2, cls.made)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def extract(self, features, out):
        return run("ivectors", "--features", features, "--extractor", self.made / "extractor.safetensors", out)

    def assert_refused(self, result, *expected, status=1):
        self.assertEqual(result.returncode, status, result.stderr)
        for text in expected:
            self.assertIn(text, result.stderr)

    def test_no_speech_is_no_table(self):
        empty = self.root / "empty.scp"
        empty.write_text("")
        out = self.root / "none"
        self.assert_refused(self.extract(empty, out), "empty.scp", "no utterance")
        self.assertFalse((out / "ivectors.scp").exists())
        self.assert_refused(run("ivectors", "--features", empty, out), "empty.scp", "no utterance")

    def test_a_table_is_not_written_over_one_that_is_read(self):
        before = (self.made / "ivectors.ark").read_bytes()
        for name in ("ivectors.scp", "./ivectors.ark"):
            for prefix in ("", "ark:" if name.endswith("ark") else "scp:"):
                table = f"{prefix}{self.made}/{name}"
                self.assert_refused(run("ivectors", "--features", table, "--dim", 1, self.made), "is read",
                                    status=2)
                self.assert_refused(
                    run("ivectors", "--features", self.root / "feats/feats.scp", "--speaker-vectors", table,
                        self.made), "is read", status=2)
        self.assertEqual((self.made / "ivectors.ark").read_bytes(), before)
        must("ivectors", "--features", self.root / "feats/feats.scp", "--extractor",
             self.made / "extractor.safetensors", self.root / "other")


if __name__ == "__main__":
    system.PROGRAM = sys.argv[2]
    unittest.main(argv=sys.argv[:1])
