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


if __name__ == "__main__":
    small_system.PROGRAM = sys.argv[2]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
