"""A chain model on speaker-adapted features, from outside: it recognises, aligns and adapts by its own words, with
transforms that Gaussians find in a graph of their own.

Usage: adapted_chain_test.py SOURCE-TREE PROGRAM
"""

import json
import pathlib
import re
import shutil
import struct
import sys
import unittest

import small_system as system
from small_system import RATE, must, run


def pdfs(folder):
    """The table pdf.scp: the bytes of each utterance's vector of 32-bit integers."""
    table = {}
    for line in (folder / "pdf.scp").read_text().splitlines():
        name, place = line.split()
        file, _, offset = place.rpartition(":")
        rest = pathlib.Path(file).read_bytes()[int(offset):]
        count, = struct.unpack("<i", rest[3:7])  # behind \0B and the size of what follows
        table[name] = rest[7:7 + 5 * count]
    return table


class AdaptedChain(system.SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        root = cls.root
        tables = ("--features", root / "gmm/feats.scp", "--cmvn", root / "gmm/cmvn.scp", "--utt2spk", root / "gmm/utt2spk")
        must("align", "--data", root / "gmm", "--lexicon", root / "lexicon.txt", "--out", root / "sat", "--last-stage",
             "sat", "--min-fmllr-frames", 50)
        must("chain", "--alignment", root / "sat", "--data", root / "gmm", root / "chain")
        must("store", *tables, "--alignment", root / "chain/pdf.scp", "--hmm", root / "chain/model.safetensors",
             "--speaker-model", root / "sat/model.safetensors", "--speaker-transforms", root / "sat/fmllr.scp", "--out",
             root / "chain-store")
        (root / "chain.toml").write_text(system.CHAIN_NETWORK)
        must("train", "--config", root / "chain.toml", "--store", root / "chain-store", "--hmm",
             root / "chain/model.safetensors", "--front-end", root / "gmm/front_end.toml", "--speaker-model",
             root / "sat/model.safetensors", "--out", root / "chain-net", "--set", "sequence.criterion=chain", "--set",
             f"sequence.chain-data={root / 'chain'}", "--set", "data.chunk-frames=30", "--set", "data.minibatch=240",
             "--set", "data.left-context=0", "--set", "data.right-context=0", "--set", "schedule.epochs=30", "--set", "optimizer.max-change=0.5", "--set",
             "schedule.learning-rate=2", "--seed", 1)
        for name, model in (("chain-graph", "chain"), ("sat-graph", "sat")):
            must("graph", "--model", root / model / "model.safetensors", "--lexicon", root / "lexicon.txt", "--grammar",
                 root / "grammar.txt", "--out", root / name)
        cls.model = root / "chain-net/model.safetensors"

    def tearDown(self):
        shutil.rmtree(self.root / "out", ignore_errors=True)

    def adapt(self, *more):
        root = self.root
        return run("adapt", self.model, "--data", root / "corpus", "--chain-data", root / "chain", "--unsupervised",
                   "--graph", root / "chain-graph", "--min-confidence", 0, "--out", root / "out", "--set",
                   "train.data.minibatch=240", "--set", "train.data.chunk-frames=30", "--set", "train.schedule.epochs=1",
                   "--set", "kld.rho=[0.25]", *more)

    def test_recognises_what_it_learnt(self):
        root = self.root
        told = must("decode", "--model", self.model, "--graph", root / "chain-graph", "--adapt-graph", root / "sat-graph",
                    "--min-fmllr-frames", 50, "--fmllr-prior-frames", 0, "--json", root / "gmm", root / "out")
        # Tones have transforms that are far from none. A word behind itself is one long tone, so that nobody can count
        # them; by chance 70 of 100 words are wrong, with the arithmetic of AVX-512 44, with that of AVX2 51.
        self.assertLess(json.loads(told.stdout)["score"]["error_rate"], 0.6)

    # Of speech that no narrow beam aligns, the second attempt needs what the first has already scored.
    def test_aligns_where_the_first_beam_is_too_narrow(self):
        root = self.root
        plain, narrow = root / "out/plain", root / "out/narrow"
        # Twice the words that were said: a path that takes what is best at each moment comes to no end, whatever the
        # arithmetic.
        other = root / "out/other"
        shutil.copytree(root / "gmm", other)
        lines = [line.split() for line in (other / "text").read_text().splitlines()]
        (other / "text").write_text("".join(f"{utt_id} {' '.join(word for word in words for _ in range(2))}\n"
                                            for utt_id, *words in lines))
        for out, more in ((plain, ("--align.beam", 40)), (narrow, ("--align.beam", 0.01))):
            must("align", "--model", self.model, "--data", other, "--lexicon", root / "lexicon.txt", "--out", out, *more)
        again = re.findall(r"  (\S+): aligned with the retry beam", (narrow / "report.txt").read_text())
        self.assertTrue(again)
        expected, found = pdfs(plain), pdfs(narrow)
        self.assertEqual([found[name] for name in again], [expected[name] for name in again])

    # A third of the frames has a transition-id, which would be taken for speech three times as fast.
    def test_its_alignment_is_none_for_another_chain_model(self):
        root = self.root
        must("align", "--model", self.model, "--data", root / "gmm", "--lexicon", root / "lexicon.txt", "--out",
             root / "out/coarse")
        result = run("chain", "--alignment", root / "out/coarse", "--data", root / "gmm", "--model", self.model,
                     root / "out/chain")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("one transition-id per output: align by mixtures", result.stderr)
        self.assertFalse((root / "out/chain/chain.json").exists())

    def test_adapts_by_its_own_words(self):
        result = self.adapt("--adapt-graph", self.root / "sat-graph")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("24 of 24 utterances were recognised", result.stdout + result.stderr)
        self.assertIn("learning rate: 0.06 ", result.stdout + result.stderr)
        self.assertNotIn("back to step", result.stdout + result.stderr)  # as at ten times that of other networks
        self.assertTrue((self.root / "out/model.safetensors").exists())

    def test_says_that_the_gaussians_have_no_graph(self):
        result = self.adapt()
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--adapt-graph", result.stderr)


if __name__ == "__main__":
    system.PROGRAM = sys.argv.pop(2)
    sys.argv.pop(1)
    unittest.main(verbosity=1)
