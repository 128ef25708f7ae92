"""Words and language models that are given at run time, to decode, transcribe and listen.

Usage: add_words_test.py SOURCE-TREE PROGRAM
"""

import json
import random
import subprocess
import sys
import unittest

import small_system as system


class AddWords(system.SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        root = cls.root
        (root / "one.wav").write_bytes(system.wav_bytes(system.speech(["A", "B", "A"], random.Random(4))))
        system.must("graph", "--model", root / "align/model.safetensors", "--lexicon", root / "lexicon.txt",
                    "--grammar", root / "grammar.txt", "--on-the-fly", "--out", root / "fly")
        (root / "spelling.txt").write_text("A a\nB b\nAA a a\nBB b b\nAB a b\nBA b a\n")
        system.must("g2p", "train", root / "spelling.txt", root / "words.g2p")
        cls.bundle = root / "fly.antiphon"
        system.must("bundle", "--model", root / "net/model.safetensors", "--graph", root / "fly", "--g2p",
                    root / "words.g2p", "--out", cls.bundle)
        cls.static = root / "static.antiphon"
        system.must("bundle", "--model", root / "net/model.safetensors", "--graph", root / "graph", "--out",
                    cls.static)

    def write(self, text, name="new.txt"):
        path = self.root / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def transcribe(self, *arguments, model=None):
        return system.run("transcribe", "--model", model or self.bundle, self.root / "one.wav", *arguments)

    def words(self, *arguments):
        done = self.transcribe(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def test_recognises_a_word_that_was_added(self):
        self.assertEqual(self.words(), ["A", "B", "A"])
        self.assertEqual(self.words("--add-words", self.write("# ours\n\nMine 1.0 a b a\n")), ["Mine"])

    def test_pronounces_what_has_no_phones(self):
        done = self.transcribe("--add-words", self.write("ABA\n"))
        self.assertEqual(done.stdout.split(), ["ABA"], done.stderr)
        self.assertIn("a b a", done.stderr)

    def test_weighs_words(self):
        new = self.write("Mine 0.000001 a b a\n")
        self.assertEqual(self.words("--add-words", new, "--added-weight", "0.00001"), ["A", "B", "A"])

    def test_decode_and_listen_add_words_too(self):
        new = self.write("Mine a b a\n")
        heard = system.must("listen", "--model", self.bundle, self.root / "one.wav", "--add-words", new, "--partial=false")
        self.assertEqual([json.loads(line)["text"] for line in heard.stdout.splitlines()], ["Mine"])
        system.must("decode", "--model", self.bundle, self.root / "one.wav", self.root / "decoded", "--add-words", new)
        self.assertEqual((self.root / "decoded/text").read_text().split()[1:], ["Mine"])
        self.assertIn("Mine", (self.root / "decoded/words.ctm").read_text())

    def test_adds_hotwords_that_the_lexicon_lacks(self):
        done = self.transcribe("--hotwords", "BAB,ABA")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split(), ["ABA"])
        self.assertIn("the hotword 'ABA': said as a b a", done.stderr)
        self.assertIn("'QQ' is not in the graph's vocabulary", self.transcribe("--hotwords", "QQ").stderr)

    def test_hotwords_are_a_list_or_a_file_wherever_they_are_taken(self):
        one, file = self.root / "one.wav", self.write("BAB\nABA\t3\n", "hot")
        for hotwords in ("BAB,ABA", file):
            decoded = self.root / f"decoded-{'file' if hotwords == file else 'list'}"
            self.assertEqual(self.words("--hotwords", hotwords), ["ABA"])
            heard = system.must("listen", "--model", self.bundle, one, "--hotwords", hotwords, "--partial=false")
            self.assertEqual([json.loads(line)["text"] for line in heard.stdout.splitlines()], ["ABA"])
            system.must("decode", "--model", self.bundle, one, decoded, "--hotwords", hotwords)
            self.assertEqual((decoded / "text").read_text().split()[1:], ["ABA"])
        for missing in ("names.txt", self.root / "names"):
            done = self.transcribe("--hotwords", missing)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"'{missing}'", done.stderr)

    def test_exchanges_the_language_model(self):
        arpa = self.write("\\data\\\nngram 1=4\n\n\\1-grams:\n-0.5 </s>\n-99 <s>\n-0.5 A\n-0.5 C\n\n\\end\\\n", "a.arpa")
        done = self.transcribe("--lm", arpa)
        self.assertEqual(set(done.stdout.split()), {"A"}, done.stderr)
        self.assertIn("C", done.stderr)
        self.assertEqual(self.words("--word-loop", self.write("B\n", "b.txt"))[0], "B")
        self.assertEqual(self.words("--grammar", self.write("0 1 B\n1 2 A\n2\n", "g.txt")), ["B", "A"])
        # What the model knows of a word that gets its sounds now holds.
        self.assertEqual(self.words("--lm", arpa, "--add-words", self.write("C a b a\n")), ["C"])
        done = self.transcribe("--lm", arpa, "--word-loop", self.write("B\n", "b.txt"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--word-loop", done.stderr)

    def test_says_what_is_known_already(self):
        done = self.transcribe("--add-words", self.write("B\nMine a b a\n"))
        self.assertEqual(done.stdout.split(), ["Mine"])
        self.assertIn("line 1: 'B' is a word of the recogniser already", done.stderr)

    def test_refuses_what_cannot_be_added(self):
        for text, reason in (("Mine a q\n", "unknown phone 'q'"), ("X a\nMine a b\nMine a b\n", "line 3: 'Mine' was there"),
                             ("<eps> a\n", "reserved"), ("Mine 0.0 a\n", "weight"), ("", "no word"),
                             ("Mine 2 a b\n", "a weight has a decimal point"), (b"Mine \xff\n", "new.txt"),
                             (b"Mi\0ne a\n", "zero byte"), ("QQQ\n", "Q")):
            with self.subTest(text=text):
                done = self.transcribe("--add-words", self.write(text))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(reason, done.stderr)
                self.assertNotIn("internal", done.stderr.lower())
        self.assertEqual(self.transcribe("--add-words", self.root / "none.txt").returncode, 1)

    def test_refuses_a_word_that_nothing_pronounces(self):
        done = system.run("transcribe", "--model", self.root / "net/model.safetensors", "--graph", self.root / "fly",
                          self.root / "one.wav", "--add-words", self.write("ABA\n"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("--g2p", done.stderr)

    def test_refuses_a_grammar_that_has_no_place_for_it(self):
        grammar = self.write("0 1 B\n1 2 A\n2\n", "g.txt")
        done = self.transcribe("--grammar", grammar, "--add-words", self.write("Mine a b a\n"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("write it into the grammar", done.stderr)
        done = self.transcribe("--grammar", grammar, "--hotwords", "ABA")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("'ABA' cannot be preferred: the grammar never says 'ABA'", done.stderr)

    def test_refuses_a_static_graph(self):
        for option, text in (("--add-words", "Mine a b a\n"), ("--word-loop", "B\n")):
            done = self.transcribe(option, self.write(text), model=self.static)
            self.assertEqual(done.returncode, 1)
            self.assertIn("antiphon graph --on-the-fly", done.stderr)
            self.assertIn("--set on_the_fly=true", done.stderr)


if __name__ == "__main__":
    system.PROGRAM = sys.argv.pop(2)
    sys.argv.pop(1)
    unittest.main(verbosity=1)
