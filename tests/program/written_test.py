"""antiphon written from outside: rules, a model of sentences, and both applied to text.

Usage: written_test.py SOURCE-TREE PROGRAM
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""


def run(*arguments, text=""):
    return subprocess.run([PROGRAM, "written", *map(str, arguments)], input=text, capture_output=True, text=True,
                          timeout=100)


def novel(seed, sentences):
    random_ = random.Random(seed)
    names = ["Anna", "London", "Mr Brown", "NASA"]
    forms = ["The man saw {} in the house.", "Is it {} or the man?", "However, he left {} again."]
    return "\n".join(random_.choice(forms).format(random_.choice(names)) for _ in range(sentences))


class Written(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)

    def test_english_rules_come_with_the_program(self):
        done = run("apply", text="I PAID TWENTY FIVE DOLLARS\n\nat half past three\n")
        self.assertEqual(done.stdout, "I paid $25.\n\nAt 3:30.\n", done.stderr)
        source = run("rules", "english")
        self.assertIn("written  =", source.stdout)
        (self.root / "mine.rules").write_text(source.stdout)
        self.assertEqual(run("rules", self.root / "mine.rules", self.root / "mine.fst").returncode, 0)
        self.assertEqual(run("apply", self.root / "mine.fst", text="nineteen eighty four").stdout, "1984.\n")

    def test_a_byte_order_mark_is_no_part_of_a_word(self):
        done = run("apply", text="\ufefftwenty five dollars\nnine cents\n")
        self.assertEqual(done.stdout, "$25.\n9¢.\n", done.stderr)

    def test_what_cannot_be_is_refused_by_name(self):
        (self.root / "bad.rules").write_text('written = "x" (\n')
        done = run("rules", self.root / "bad.rules", self.root / "bad.fst")
        self.assertEqual(done.returncode, 1)
        self.assertIn("bad.rules:1", done.stderr)
        self.assertFalse((self.root / "bad.fst").exists())
        self.assertEqual(run("rules", "english", self.root / "english.txt").returncode, 2)
        (self.root / "no.fst").write_bytes(bytes(random.Random(1).randrange(256) for _ in range(200)))
        for form in ("no.fst", "nowhere", "."):
            done = run("apply", self.root / form, text="x")
            self.assertEqual(done.returncode, 1)
            self.assertNotIn("FATAL", done.stderr)

    def test_a_file_of_text_in_place_of_the_form_is_told(self):
        (self.root / "said.txt").write_text("twenty five dollars\n")
        done = run("apply", self.root / "said.txt")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("the form stands first, the file of text second", done.stderr)
        self.assertRegex(done.stderr, r"no written form is '.*said.txt': expected 'english', a folder, or a file of rules")
        self.assertEqual(run("apply", "english", self.root / "said.txt").stdout, "$25.\n")

    def test_pauses_of_timed_words_end_sentences(self):
        (self.root / "words.ctm").write_text("u 1 0.00 0.40 HE\nu 1 0.40 0.30 PAID\nu 1 0.70 0.50 TWENTY\n"
                                             "u 1 2.50 0.40 FIVE\nu 1 2.90 0.50 DOLLARS\nv 1 0.00 0.50 IT\n")
        done = run("apply", "english", "--ctm", self.root / "words.ctm")
        self.assertEqual(done.stdout, "u He paid 20. $5.\nv It.\n", done.stderr)
        (self.root / "words.ctm").write_text("u 1 zero 0.40 HE\n")
        done = run("apply", "english", "--ctm", self.root / "words.ctm")
        self.assertEqual(done.returncode, 1)
        self.assertIn("words.ctm:1: expected UTTERANCE CHANNEL START DURATION WORD", done.stderr)
        done = run("apply", "english", self.root / "said.txt", "--ctm", self.root / "words.ctm")
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_a_model_of_sentences_is_learnt_and_measured(self):
        (self.root / "novel.txt").write_text(novel(1, 500))
        done = run("train", self.root / "novel.txt", self.root / "form.safetensors", "--held-out", 0.2, "--buckets", 4096,
                   "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        ends = json.loads(done.stdout)["held_out"]["ends"]
        self.assertGreater(ends["right"], 0.95 * ends["wanted"])
        done = run("apply", self.root / "form.safetensors", text="IS IT ANNA OR THE MAN HE LEFT NASA AGAIN")
        self.assertEqual(done.stdout, "Is it Anna or the man? He left NASA again.\n")
        again = self.root / "again.safetensors"
        run("train", self.root / "novel.txt", again, "--buckets", 4096)
        self.assertEqual(again.read_bytes(), (self.root / "form.safetensors").read_bytes())


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(2)
    sys.argv.pop(1)
    unittest.main(verbosity=1)
