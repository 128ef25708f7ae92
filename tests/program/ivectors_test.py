"""antiphon ivectors from outside: what cannot give vectors of speakers is refused, and what was there stays.

Usage: ivectors_test.py SOURCE-TREE PROGRAM
"""

import pathlib
import random
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

    def test_speakers_are_cut_online_alone(self):
        before = {path.name: path.read_bytes() for path in self.made.iterdir()}
        for more in (), ("--extractor", self.made / "extractor.safetensors"):
            self.assert_refused(run("ivectors", "--features", self.root / "feats/feats.scp", "--gaussians", 2, "--dim",
                                    1, "--speaker-utterances", 2, *more, self.made), "--online", status=2)
        self.assertEqual({path.name: path.read_bytes() for path in self.made.iterdir()}, before)

    def test_utterances_have_frames_of_one_dimension(self):
        """As text: an utterance without frames, which tells nothing, in front; later one of other features."""
        random_ = random.Random(1)

        def utterance(name, dim, frames=40):
            rows = "\n".join(" ".join(f"{random_.gauss(0, 1):.3f}" for _ in range(dim)) for _ in range(frames))
            return f"{name} [\n{rows} ]\n"
        table, pdfs = self.root / "some.ark", self.root / "some-pdfs.ark"
        good = "silent [ ]\n" + "".join(utterance(name, 3) for name in "abcd")
        pdfs.write_text("silent \n" + "".join(f"{name} {' '.join(str(t % 3) for t in range(40))}\n" for name in "abcd"))
        with_lda = ("--alignment", pdfs, "--lda-dim", 2, "--lda-context", 1)
        for number, more in enumerate(((), with_lda)):
            train = ("ivectors", "--features", table, "--gaussians", 2, "--dim", 1, "--iterations", 1, *more)
            table.write_text(good)
            for per in "speaker", "utterance":
                must(*train, "--per", per, self.root / f"some{number}-{per}")
            table.write_text(good + utterance("other", 4))
            if more:
                pdfs.write_text(pdfs.read_text() + f"other {' '.join('0' * 40)}\n")
            self.assert_refused(run(*train, self.root / f"odd{number}"), "some.ark", "'other'",
                                "4 features per frame, but utterance 'a' has 3")
            self.assertFalse((self.root / f"odd{number}/extractor.safetensors").exists())


if __name__ == "__main__":
    system.PROGRAM = sys.argv[2]
    unittest.main(argv=sys.argv[:1])
