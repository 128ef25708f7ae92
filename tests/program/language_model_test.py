"""antiphon lm and pronunciations from outside: mixing, pruning, what an alignment teaches, and what is refused.

Usage: language_model_test.py SOURCE-TREE PROGRAM
"""

import json
import random
import re
import sys
import unittest

import small_system as system


def once(text):
    """Without repetitions: a tone twice without a pause between may be heard as one."""
    return re.sub(r"\b([AB])( \1)+\b", r"\1", text)


class LanguageModels(system.SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random_ = random.Random(4)
        for name, words in (("north", "ABCD"), ("south", "CDEF")):
            # Mostly in turn, so that n-grams say something.
            lines = []
            for _ in range(200):
                at = random_.randrange(4)
                line = [words[(at + i + (random_.random() < 0.2)) % 4] for i in range(random_.randrange(1, 8))]
                lines.append(" ".join(line))
            (cls.root / f"{name}.txt").write_text("\n".join(lines) + "\n")
            system.must("lm", "--text", cls.root / f"{name}.txt", "--order", 3, cls.root / f"{name}.arpa")

    def refused(self, status, text, *arguments):
        result = system.run(*arguments)
        self.assertEqual((result.returncode, result.stdout), (status, ""), result.stderr)
        self.assertIn(text, result.stderr)

    def mix(self, *more):
        root = self.root
        return ["lm", "--interpolate", f"{root / 'north.arpa'},{root / 'south.arpa'}", *more]

    def test_mixes_by_weights_or_by_held_out_text(self):
        root = self.root
        result = system.must(*self.mix("--held-out", root / "south.txt", "--evaluate", root / "south.txt",
                                       root / "mixed.arpa", "--json"))
        report = json.loads(result.stdout)
        north, south = report["interpolated"]
        self.assertLess(north["weight"], 0.1)
        self.assertAlmostEqual(north["weight"] + south["weight"], 1.0)
        self.assertGreater(north["unknown_words"], 0)
        self.assertLess(report["mixture_perplexity"], 1.01 * south["perplexity"])
        self.assertAlmostEqual(report["perplexity"], report["mixture_perplexity"], delta=0.02 * report["perplexity"])
        self.assertEqual(report["words"], 8)
        text = system.must(*self.mix("--weights", "0.5,0.5", root / "half.arpa")).stdout
        self.assertIn("north.arpa' lacks 2 of the 8 words", text)

    def test_takes_the_marks_of_other_tools_for_no_words(self):
        root = self.root
        lines = (root / "north.txt").read_text().splitlines()
        (root / "marked.txt").write_text("".join(f"<s> {line} </s>\n" for line in lines))
        (root / "marked-ids.txt").write_text("".join(f"u{i} <s> {line} </s>\n" for i, line in enumerate(lines)))
        system.must("lm", "--text", root / "marked.txt", "--order", 3, root / "marked.arpa")
        self.assertEqual((root / "marked.arpa").read_text(), (root / "north.arpa").read_text())
        system.must("lm", "--text", root / "marked-ids.txt", "--utterance-ids", "--order", 3, root / "marked.arpa")
        self.assertEqual((root / "marked.arpa").read_text(), (root / "north.arpa").read_text())
        plain, marked = (json.loads(system.must(*self.mix("--held-out", root / name, "--evaluate", root / name,
                                                          "--json")).stdout) for name in ("north.txt", "marked.txt"))
        self.assertEqual(marked, plain)
        # A vocabulary is no sentence: what stands behind the word is not read.
        (root / "words.txt").write_text("<s> 1\nA 2\nB 3\n</s> 4\n")
        told = system.must("lm", "--text", root / "north.txt", "--vocabulary", root / "words.txt", root / "small.arpa",
                           "--json")
        self.assertEqual(json.loads(told.stdout)["words"], 4)
        for line in ("A </s> <s> B", "<s> <s> A </s>", "A </s> B"):
            (root / "broken.txt").write_text(f"A B\n{line}\n")
            self.refused(1, "broken.txt:2: '", "lm", "--text", root / "broken.txt", root / "none.arpa")
            self.refused(1, "broken.txt:2: '", "lm", "--arpa", root / "north.arpa", "--evaluate", root / "broken.txt")
        self.assertFalse((root / "none.arpa").exists())

    def test_prunes_models_of_any_origin(self):
        root = self.root
        sizes = []
        for threshold in ("0", "1e-4", "1e-2"):
            result = system.must("lm", "--arpa", root / "north.arpa", "--prune", threshold, root / "pruned.arpa",
                                 "--evaluate", root / "north.txt", "--json")
            report = json.loads(result.stdout)
            sizes.append(sum(report["ngrams"]))
            if threshold != "0":
                self.assertIn("perplexity_before_pruning", report)
        self.assertGreater(sizes[0], sizes[1])
        self.assertGreater(sizes[1], sizes[2])
        system.must("lm", "--arpa", root / "pruned.arpa", "--evaluate", root / "north.txt")
        self.assertEqual(json.loads(system.must("lm", "--text", root / "north.txt", "--prune", "1e-2", "--order", 3,
                                                root / "again.arpa", "--json").stdout)["ngrams"],
                         report["ngrams"])

    def test_refuses_what_makes_no_model(self):
        root = self.root
        out = root / "none.arpa"
        self.refused(2, "--weights sum to 1.2", *self.mix("--weights", "0.5,0.7", out))
        self.refused(2, "2 models and --weights 1", *self.mix("--weights", "1.0", out))
        self.refused(2, "needs --weights, or --held-out", *self.mix(out))
        self.refused(2, "two models", "lm", "--interpolate", root / "north.arpa", "--weights", "1.0", out)
        self.refused(2, "give one of", *self.mix("--weights", "0.5,0.5", "--text", root / "north.txt", out))
        self.refused(2, "belong to --interpolate", "lm", "--arpa", root / "north.arpa", "--weights", "1.0", out)
        whole = (root / "south.arpa").read_text()
        (root / "cut.arpa").write_text(whole[:len(whole) // 2])
        (root / "heavy.arpa").write_text("\\data\\\nngram 1=2\n\\1-grams:\n-0.1 A\n-0.1 </s>\n\\end\\\n")
        for name, text in (("cut", "cut.arpa"), ("heavy", "heavy.arpa':\n  the probabilities of the 1-grams sum to 1.58")):
            self.refused(1, text, "lm", "--interpolate", f"{root / 'north.arpa'},{root / name}.arpa", "--weights",
                         "0.5,0.5", out)
        self.refused(1, "heavy.arpa:\n  the probabilities of the 1-grams", "lm", "--arpa", root / "heavy.arpa", "--prune",
                     "1e-8", out)
        self.assertFalse(out.exists())

    def test_an_alignment_teaches_pauses_to_the_graph(self):
        root = self.root
        report = json.loads(system.must("pronunciations", "--alignment", root / "align", "--lexicon",
                                        root / "lexicon.txt", root / "learnt", "--json").stdout)
        self.assertEqual((report["utterances"], report["words"]), (24, 72))
        self.assertGreater(report["pause_at_start"], 0.8)
        graph = ["graph", "--model", root / "align/model.safetensors", "--lexicon", root / "lexicon.txt", "--grammar",
                 root / "grammar.txt"]
        system.must(*graph, "--pronunciations", root / "learnt", root / "learnt-graph")
        self.assertIn("pronunciations lexiconp_silprob.txt",
                      json.loads((root / "learnt-graph/graph.json").read_text())["language_model"])
        heard = []
        for name in ("graph", "learnt-graph"):
            system.must("decode", "--model", root / "net/model.safetensors", "--graph", root / name, root / "corpus",
                        root / f"out-{name}")
            heard.append(once((root / f"out-{name}/text").read_text()))
        self.assertEqual(heard, [once((root / "corpus/text").read_text())] * 2)
        self.refused(2, "leave --silence-probability out", *graph, "--pronunciations", root / "learnt",
                     "--silence-probability", "0.3", root / "none")
        (root / "lexicon-b.txt").write_text("<SIL> SIL\nA a\nB a b\n")
        graph[4] = root / "lexicon-b.txt"
        self.refused(1, "lexiconp_silprob.txt:3: the lexicon does not say 'B' as 'b'", *graph, "--pronunciations",
                     root / "learnt", root / "none")
        self.refused(1, "words.ctm:", "pronunciations", "--alignment", root / "align", "--lexicon",
                     root / "lexicon-b.txt", root / "none")


if __name__ == "__main__":
    system.PROGRAM = sys.argv.pop(2)
    sys.argv.pop(1)
    unittest.main(verbosity=1)
