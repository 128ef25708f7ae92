"""antiphon prepare on corpora that others lay out, from outside: what it writes, and what it refuses.

Usage: prepare_corpora_test.py SOURCE-TREE PROGRAM
"""

import json
import pathlib
import random
import sys
import tempfile
import unittest

import small_system as system


class PrepareCorpora(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        system.make_corpus(self.root / "corpus")

    def test_a_data_directory_goes_to_lhotse_and_back(self):
        root = self.root
        system.must("prepare", "--to", "lhotse", root / "corpus", root / "manifests")
        lines = (root / "manifests/supervisions.jsonl").read_text().splitlines()
        self.assertEqual(len(lines), 24)
        self.assertEqual(json.loads(lines[0])["speaker"], "s0")
        # The manifests name the audio by absolute paths.
        system.must("prepare", "--from", "lhotse", root / "manifests", root / "back")
        for name in ("text", "utt2spk"):
            self.assertEqual((root / "back" / name).read_text(), (root / "corpus" / name).read_text())
        system.must("prepare", "--check", root / "back", "--lexicon", self.lexicon())

    def lexicon(self):
        (self.root / "lexicon.txt").write_text("<SIL> SIL\nA a\nB b\n")
        return self.root / "lexicon.txt"

    def test_rows_that_cannot_be_used_are_named_and_the_rest_is_written(self):
        folder = self.root / "lj"
        (folder / "wavs").mkdir(parents=True)
        for name in ("x-1", "x-2"):
            (folder / "wavs" / f"{name}.wav").write_bytes(
                system.wav_bytes(system.speech(["A", "B"], random.Random(name))))
        (folder / "metadata.csv").write_text("x-1|1 a, b.|One A, B.\nx-2|A\nx-3|A|A\nnothing\n")
        made = system.must("prepare", "--from", "ljspeech", folder, self.root / "out", "--case", "upper",
                           "--strip-punctuation")
        self.assertIn("metadata.csv:3: there is no audio file 'x-3'", made.stdout)
        self.assertIn("metadata.csv:4: expected ID|TEXT", made.stdout)
        self.assertEqual((self.root / "out/text").read_text(), "lj-x-1 ONE A B\nlj-x-2 A\n")

    def test_what_is_wrong_is_said(self):
        root = self.root
        (root / "tables").mkdir()
        (root / "tables/train.tsv").write_text("a\tb\n")
        (root / "tables/dev.tsv").write_text("a\tb\n")
        for code, why, arguments in (
                (2, "CORPUS OUT", ("--from", "mfa", root / "corpus")),
                (2, "belong to --from", ("--part", "train", root / "corpus", root / "out")),
                (2, "OUT", ("--to", "lhotse", root / "corpus")),
                (2, "common-voice", ("--from", "comon-voice", root / "corpus", root / "out")),
                (1, "holds no validated.tsv", ("--from", "common-voice", root / "tables", root / "out")),
                (1, "no audio", ("--from", "common-voice", root / "tables", root / "out", "--part", "train")),
                (1, "does not exist", ("--from", "nemo", root / "nowhere", root / "out")),
                (1, "holds no .stm files", ("--from", "stm", root / "corpus", root / "out")),
                (1, "no folders with etc/PROMPTS", ("--from", "voxforge", root / "corpus", root / "out")),
                (1, ".lab, .txt or .TextGrid", ("--from", "mfa", root / "corpus", root / "out"))):
            result = system.run("prepare", *arguments)
            self.assertEqual(result.returncode, code, (arguments, result.stderr))
            self.assertIn(why, result.stderr)
            self.assertFalse((root / "out").exists(), arguments)


if __name__ == "__main__":
    system.PROGRAM = sys.argv.pop(2)
    sys.argv.pop(1)
    unittest.main(verbosity=1)
