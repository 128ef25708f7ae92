"""`antiphon lattices` as a program: what it says of the speech that it made lattices of.

Usage: lattices_test.py SOURCE-TREE PROGRAM [unittest options and cases]
"""

import json
import sys
import unittest

import small_system
from small_system import RATE, must


class LatticesTest(small_system.SystemTest):
    def seconds_at(self, shift_ms):
        """Of frames this far apart, by a model that says so: (frames, seconds)."""
        root = self.root / f"shift-{shift_ms}"
        root.mkdir()
        must("features", self.root / "corpus", "--out", root / "feats", "--sample-rate", RATE, "--frame-shift-ms",
             shift_ms)
        must("align", "--data", root / "feats", "--lexicon", self.root / "lexicon.txt", "--out", root / "align",
             "--last-stage", "mono")
        must("store", "--features", root / "feats/feats.scp", "--cmvn", root / "feats/cmvn.scp", "--utt2spk",
             root / "feats/utt2spk", "--alignment", root / "align/pdf.scp", "--out", root / "store")
        must("train", "--config", self.root / "net.toml", "--store", root / "store", "--hmm",
             root / "align/model.safetensors", "--front-end", root / "feats/front_end.toml", "--out", root / "net",
             "--set", "data.minibatch=64", "--set", "schedule.epochs=2")
        must("graph", "--model", root / "align/model.safetensors", "--lexicon", self.root / "lexicon.txt", "--grammar",
             self.root / "grammar.txt", "--out", root / "graph")
        result = json.loads(must("lattices", "--json", "--model", root / "net/model.safetensors", "--graph",
                                 root / "graph", "--store", root / "store", "--text", self.root / "corpus/text",
                                 root / "lattices").stdout)
        self.assertGreater(result["lattices"], 0)
        return result["frames"], result["seconds"]

    def test_speech_is_as_long_as_the_models_frames_are_apart(self):
        for shift_ms in (10, 20):
            frames, seconds = self.seconds_at(shift_ms)
            self.assertAlmostEqual(seconds, frames * shift_ms / 1000, places=6)

    def left_out(self, changed, graph="graph"):
        """What is said when the first utterance's transcript reads so, and the utterances that have a lattice."""
        lines = (self.root / "corpus/text").read_text().splitlines(keepends=True)
        utterance = lines[0].split()[0]
        (self.root / "changed").write_text("".join([f"{utterance} {changed}\n" if changed else "", *lines[1:]]))
        out = self.root / "untaught"
        result = must("lattices", "--model", self.root / "align/model.safetensors", "--graph", self.root / graph,
                      "--data", self.root / "gmm", "--text", self.root / "changed", out)
        made = [line.split()[0] for line in (out / "lattices.scp").read_text().splitlines()]
        self.assertEqual(made, [line.split()[0] for line in lines[1:]])
        self.assertEqual(made, [line.split()[0] for line in (out / "ali.scp").read_text().splitlines()])
        told, = (line for line in result.stdout.splitlines() if "left out" in line)
        self.assertIn(f"1 utterances were left out, the first: {utterance}: ", told)
        return told

    def test_what_the_graph_cannot_say_is_no_reference(self):
        self.assertIn("it has no transcript", self.left_out(""))
        self.assertIn("the graph does not know the word 'ELEPHANT'", self.left_out("A ELEPHANT B"))
        # Always three words.
        arcs = [f"{n} {n + 1} {word}\n" for n in range(3) for word in "AB"]
        (self.root / "three.txt").write_text("".join(arcs) + "3\n")
        must("graph", "--model", self.root / "align/model.safetensors", "--lexicon", self.root / "lexicon.txt",
             "--grammar", self.root / "three.txt", "--out", self.root / "three")
        self.assertIn("the graph has no path for its words", self.left_out("A B", "three"))

    def test_words_that_have_no_time_are_no_reference(self):
        """More of them than frames: a search is still under way among them when the frames are over."""
        self.assertIn("its words do not fit its frames within the beam", self.left_out("A B " * 100))


if __name__ == "__main__":
    small_system.PROGRAM = sys.argv[2]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
