"""A lexicon made larger by recipes/scripts: the most frequent words it lacks, their sounds, and a model that has them.

Usage: more_words_test.py SOURCE-TREE PROGRAM
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = PROGRAM = None


class MoreWords(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.put("lexicon.txt", "<SIL> SIL", "CAT K AE T", "CAT'S K AE T S", "DOG D AO G")
        self.put("cmudict", "cat K AE T X", "cod K AA D", "god G AA D", "god(2) G AO D", "doc D AA K", "a.b EY B IY")
        self.put("frequencies", "cod 0.003", "cat 0.5", "tod 0.006", "god 0.01", "doc 0.0001", "dog's 0.0002", "x9 0.2")

    def put(self, name, *lines):
        (self.root / name).write_text("".join(line + "\n" for line in lines))

    def lines(self, name):
        return (self.root / name).read_text().splitlines()

    def script(self, name, *arguments):
        return subprocess.run([sys.executable, SCRIPTS / name, *arguments], cwd=self.root, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=100, check=False)

    def choose(self, *more):
        return self.script("more_words.py", "--lexicon", "lexicon.txt", "--out", "more", "--dictionary", "cmudict",
                           "--frequencies", "frequencies", *more)

    def antiphon(self, *arguments):
        result = subprocess.run([PROGRAM, *arguments], cwd=self.root, stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=100, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_takes_the_most_frequent_that_the_lexicon_lacks(self):
        result = self.choose("--words", "7")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("3 words, the dictionary pronounces 2 of them", result.stdout)
        self.assertEqual(self.lines("more/known.txt"), [*self.lines("lexicon.txt"), "COD K AA D", "GOD G AA D",
                                                        "GOD G AO D"])
        self.assertEqual(self.lines("more/unknown.txt"), ["TOD"])

    def test_probabilities_are_those_of_the_frequencies(self):
        self.choose("--words", "7")
        self.put("text", "GOD", "TOD COD")
        report = json.loads(self.antiphon("lm", "--arpa", "more/unigrams.arpa", "--evaluate", "text", "--json"))
        share = 0.95 / 0.019
        product = (0.01 * share) * (0.006 * share) * (0.003 * share) * 0.05**2
        self.assertAlmostEqual(report["perplexity"], product ** (-1 / 5), delta=1e-3)

    def test_the_sum_with_a_model_has_all_words(self):
        self.choose("--words", "100")
        self.put("sentences", "CAT DOG", "DOG CAT", "CAT")
        self.antiphon("lm", "--text", "sentences", "--order", "2", "two.arpa")
        self.put("held-out", "CAT GOD", "DOG CAT", "CAT DOG DOG'S")
        self.antiphon("lm", "--interpolate", "two.arpa,more/unigrams.arpa", "--held-out", "held-out", "mixed.arpa")
        report = json.loads(self.antiphon("lm", "--arpa", "mixed.arpa", "--evaluate", "held-out", "--json"))
        self.assertEqual(report["unknown_words"], 0)

    def test_guessed_sounds_follow_known_ones(self):
        self.choose("--words", "100")
        self.antiphon("g2p", "train", "more/known.txt", "more/words.g2p")
        self.antiphon("g2p", "apply", "more/words.g2p", "--list", "more/unknown.txt", "--out", "more/guessed.txt")
        result = self.script("join_lexica.py", "--lexica", "more/known.txt", "more/guessed.txt", "more/known.txt",
                             "--out", "more/lexicon.txt")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.lines("more/lexicon.txt"), self.lines("more/known.txt") + self.lines("more/guessed.txt"))
        self.assertEqual([line.split()[0] for line in self.lines("more/guessed.txt")], ["DOG'S", "TOD"])

    def test_says_what_is_missing(self):
        (self.root / "cmudict").unlink()
        self.assertIn("the dictionary 'cmudict' is missing", self.choose().stderr)
        self.put("cmudict", "cod K AA D")
        result = self.choose("--words", "4")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the lexicon has 4 words and lacks none of the 4", result.stderr)


if __name__ == "__main__":
    SCRIPTS, PROGRAM = pathlib.Path(sys.argv[1]) / "recipes/scripts", pathlib.Path(sys.argv[2]).absolute()
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
