"""Words of sixteen scripts, written in both forms of Unicode, from outside: names of files, transcripts, lexicon,
language model and scores take either form for the same word. Python's unicodedata says what the forms are.

Usage: languages_test.py SOURCE-TREE PROGRAM
"""

import json
import pathlib
import random
import sys
import tempfile
import unicodedata
import unittest

import small_system as system

# Of each language: a name for a file, a sentence as people write it, and its words in lower case without punctuation.
LANGUAGES = {
    "French": ("été", "« L’Été », déjà ?", "l'été déjà"),
    "Vietnamese": ("phở", "Phở tiếng Việt, được!", "phở tiếng việt được"),
    "Greek": ("καλημέρα", "Καλημέρα· τί κάνεις\u037e", "καλημέρα τί κάνεις"),
    "Russian": ("ёж", "Ёжик, мой «чай».", "ёжик мой чай"),
    "Armenian": ("բարեւ", "Բարեւ՝ Հայաստան։", "բարեւ հայաստան"),
    "Georgian": ("თბილისი", "გამარჯობა, თბილისი!", "გამარჯობა თბილისი"),
    "Hebrew": ("שָׁלוֹם", "שָׁלוֹם, עוֹלָם?", "שָׁלוֹם עוֹלָם"),
    "Arabic": ("مدرسة", "أَهْلًا، آلو؟", "أَهْلًا آلو"),
    "Hindi": ("क़लम", "क़लम ज़रा पढ़ो।", "क़लम ज़रा पढ़ो"),
    "Bengali": ("ভালো", "ভালো বাংলা, বড়।", "ভালো বাংলা বড়"),
    "Tamil": ("கொடி", "கொடி, தமிழ்!", "கொடி தமிழ்"),
    "Sinhala": ("කෝපි", "කෝපි, හොඳයි.", "කෝපි හොඳයි"),
    "Burmese": ("ဦး", "ဦး မြန်မာ။", "ဦး မြန်မာ"),
    "Thai": ("น้ำ", "น้ำ “ไทย”", "น้ำ ไทย"),
    "Korean": ("한국", "한국, 말!", "한국 말"),
    "Japanese": ("がぎ", "がっこう、 パン。", "がっこう パン"),
    "Amharic": ("ሰላም", "ሰላም፣ አዲስ።", "ሰላም አዲስ"),
}
FORMS = ("NFC", "NFD")


class Languages(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)

    def test_the_samples_have_two_forms(self):
        differ = [language for language, (name, sentence, words) in LANGUAGES.items()
                  if unicodedata.normalize("NFC", words) != unicodedata.normalize("NFD", words)]
        # Georgian, Thai and Ethiopic letters have no accents; Armenian's have none in use; Hebrew's have no letter of
        # their own with them in either form, but an order.
        self.assertGreaterEqual(len(differ), 11, differ)
        self.assertGreaterEqual(len(LANGUAGES), 16)

    def test_both_forms_are_the_same_words_everywhere(self):
        for number, (language, (name, sentence, words)) in enumerate(LANGUAGES.items()):
            for form, other in (FORMS, FORMS[::-1]):
                with self.subTest(language=language, table=form):
                    self.check(self.root / f"{number}-{form}", name, sentence, words,
                               lambda text: unicodedata.normalize(form, text),
                               lambda text: unicodedata.normalize(other, text))

    def check(self, root, name, sentence, words, one, other):
        (root / "audio").mkdir(parents=True)
        (root / "audio" / f"{one(name)}.wav").write_bytes(
            system.wav_bytes(system.speech(["A"], random.Random(1))))
        (root / "table.csv").write_text(f'{other(name)},"{one(sentence)}"\n')
        (root / "lexicon.txt").write_text("".join(f"{other(word)} a\n" for word in words.split()))
        (root / "lm.txt").write_text(f"{one(words)}\n{other(words)}\n")
        system.must("prepare", root / "audio", root / "table.csv", root / "data", "--case", "lower",
                    "--strip-punctuation")
        check = json.loads(
            system.must("prepare", "--check", root / "data", "--lexicon", root / "lexicon.txt", "--json").stdout)
        self.assertEqual(check["oov"], [])
        text = (root / "data/text").read_text().split(maxsplit=1)[1].strip()
        self.assertEqual(text, unicodedata.normalize("NFC", words))
        system.must("lm", "--text", root / "lm.txt", "--out", root / "lm.arpa", "--vocabulary", root / "lexicon.txt",
                    "--order", "1")
        listed = {line.split("\t")[1] for line in (root / "lm.arpa").read_text().splitlines() if line.count("\t") >= 1}
        self.assertEqual(listed - {"<s>", "</s>", "<unk>"}, set(unicodedata.normalize("NFC", words).split()))
        utterance = (root / "data/text").read_text().split()[0]
        (root / "hypotheses").write_text(f"{utterance} {other(words)}\n")
        score = json.loads(system.must("score", root / "data/text", root / "hypotheses", "--json").stdout)
        self.assertEqual(score["errors"], 0)
        self.assertEqual(score["reference_length"], len(words.split()))


if __name__ == "__main__":
    system.PROGRAM = sys.argv.pop(2)
    sys.argv.pop(1)
    unittest.main(verbosity=1)
