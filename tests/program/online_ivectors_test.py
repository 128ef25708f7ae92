"""i-vectors while speech is coming, from outside: extractor, training, and the same words from decode and listen.

Usage: online_ivectors_test.py SOURCE-TREE PROGRAM
"""

import json
import shutil
import sys
import unittest

import small_system as system
from small_system import RATE, must, run


class OnlineIvectors(system.SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        root = cls.root
        must("features", root / "corpus", "--out", root / "online", "--sample-rate", RATE, "--mean-window", 600, "--dither", 0)
        cls.tables = ("--features", root / "online/feats.scp", "--utt2spk", root / "online/utt2spk")
        must("ivectors", *cls.tables, "--online", "--speaker-utterances", 2, "--alignment", root / "align/pdf.scp", "--lda-dim",
             4, "--dim", 3, "--gaussians", 4, "--iterations", 2, "--prior-offset", 20, "--vector-scale", 0.4,
             root / "vectors")
        cls.extractor = root / "vectors/extractor.safetensors"
        cls.store(root / "vectors/ivectors.scp", root / "vector-store")
        must(*cls.training(root / "vector-store", root / "vector-net", "--ivector-extractor", cls.extractor))
        cls.model = root / "vector-net/model.safetensors"

    @classmethod
    def store(cls, vectors, out):
        must("store", *cls.tables, "--alignment", cls.root / "align/pdf.scp", "--speaker-vectors", vectors, "--out", out)

    @classmethod
    def training(cls, store, out, *more):
        return ("train", "--config", cls.root / "net.toml", "--store", store, "--hmm", cls.root / "align/model.safetensors",
                "--front-end", cls.root / "online/front_end.toml", "--out", out, "--set", "data.minibatch=64", "--set",
                "schedule.epochs=3", *more)

    def decode(self, out, *more):
        must("decode", "--model", self.model, "--graph", self.root / "graph", self.root / "corpus", out, *more)
        return (out / "text").read_text()

    def listen(self, utt_id, *more):
        told = must("listen", "--model", self.model, "--graph", self.root / "graph", "--no-partial", "--json",
                    self.root / f"corpus/{utt_id}.wav", *more)
        return json.loads(told.stdout)["utterances"]

    def assert_refused(self, result, *expected, status=1):
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        for text in expected:
            self.assertIn(text, result.stderr)

    def test_decode_and_listen_give_the_same_words(self):
        text = self.decode(self.root / "decoded")
        found = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
        self.assertGreater(len(found), 20)
        heard = {}
        for utt_id in found:
            heard[utt_id] = " ".join(part["text"] for part in self.listen(utt_id) if part["text"])
        self.assertEqual(heard, found)

    # What decode puts behind the features itself is what the command makes of each utterance.
    def test_decode_makes_the_vectors_that_the_command_makes(self):
        root = self.root
        must("ivectors", *self.tables, "--online", "--per", "utterance", "--extractor", self.extractor, root / "each")
        features = ("--features", root / "online/feats.scp", "--utt2spk", root / "online/utt2spk")
        own = self.decode(root / "own", *features)
        self.assertEqual(self.decode(root / "given", *features, "--speaker-vectors", root / "each/ivectors.scp"), own)
        for name in ("results.jsonl", "words.ctm"):
            self.assertEqual((root / "given" / name).read_bytes(), (root / "own" / name).read_bytes())

    def test_the_second_utterance_begins_where_the_first_ended(self):
        root = self.root
        kept = ("--speakers", root / "speakers", "--speaker")
        file = root / "speakers/anna.safetensors"
        self.listen("s0-u00", *kept, "anna")
        first = file.read_bytes()
        self.listen("s0-u04", *kept, "anna")
        self.assertNotEqual(file.read_bytes(), first)
        second = file.read_bytes()
        file.write_bytes(first)
        self.listen("s0-u04", *kept, "anna")
        self.assertEqual(file.read_bytes(), second, "a restored memory goes on bit for bit")
        # Both files in one run are as two runs.
        both = root / "both"
        both.mkdir()
        for utt_id in ("s0-u00", "s0-u04"):
            shutil.copy(root / f"corpus/{utt_id}.wav", both)
        must("listen", "--model", self.model, "--graph", root / "graph", *kept, "berta", both)
        self.listen("s0-u00", *kept, "berta2")
        self.listen("s0-u04", *kept, "berta2")
        berta, again = ((root / f"speakers/{name}.safetensors").read_bytes() for name in ("berta", "berta2"))
        self.assertEqual(berta[-400:], again[-400:])  # the numbers, behind a header with the names

    def test_memories_that_do_not_fit_are_refused(self):
        root = self.root
        listen = ("listen", "--graph", root / "graph", "--speakers", root / "others", root / "corpus/s0-u00.wav", "--model")
        for name in ("../anna", ".anna", "a/b"):
            self.assert_refused(run(*listen, self.model, "--speaker", name), "no name of a speaker", status=2)
        must("store", "--features", root / "feats/feats.scp", "--utt2spk", root / "corpus/utt2spk", "--alignment",
             root / "align/pdf.scp", "--out", root / "raw-store")
        must("train", "--config", root / "net.toml", "--store", root / "raw-store", "--hmm", root / "align/model.safetensors",
             "--front-end", root / "feats/front_end.toml", "--out", root / "raw-net", "--set", "schedule.epochs=1")
        self.assert_refused(run(*listen, root / "raw-net/model.safetensors", "--speaker", "anna"), "models that remember",
                            status=2)
        must(*listen, root / "net/model.safetensors", "--speaker", "mean-alone")
        must(*listen, self.model, "--speaker", "anna")
        file = root / "others/anna.safetensors"
        whole = file.read_bytes()
        file.write_bytes(whole[:-3] + b"xyz")
        self.assert_refused(run(*listen, self.model, "--speaker", "anna"), "anna.safetensors", "checksum")
        file.write_bytes(self.extractor.read_bytes())
        self.assert_refused(run(*listen, self.model, "--speaker", "anna"), "no memory of a speaker")
        file.write_bytes(whole)

    def test_extractors_that_do_not_fit_are_refused(self):
        root = self.root
        asked = self.training(root / "vector-store", root / "no-net", "--ivector-extractor")
        must("ivectors", *self.tables, "--online", "--dim", 2, "--gaussians", 2, "--iterations", 1, root / "small")
        self.assert_refused(run(*asked, root / "small/extractor.safetensors"), "another extractor's")
        must("ivectors", *self.tables, "--dim", 3, "--gaussians", 2, "--iterations", 1, root / "whole")
        self.store(root / "whole/ivectors.scp", root / "whole-store")
        whole = self.training(root / "whole-store", root / "no-net", "--ivector-extractor")
        self.assert_refused(run(*whole, root / "whole/extractor.safetensors"), "none that were made --online")
        self.assert_refused(run(*asked, self.model), "no i-vector extractor")
        # Features of another dimension, and options that the extractor has decided.
        self.assert_refused(run("ivectors", "--features", root / "gmm/feats.scp", "--online", "--extractor", self.extractor,
                                root / "none"), "40 features", "found 13")
        self.assert_refused(run("ivectors", *self.tables, "--extractor", self.extractor, "--dim", 7, root / "none"),
                            "--dim", status=2)
        self.assertFalse((root / "no-net/model.safetensors").exists())

    def test_empty_and_silent_speech_changes_no_memory(self):
        root = self.root
        (root / "silent.wav").write_bytes(system.wav_bytes([0] * RATE))
        (root / "short.wav").write_bytes(system.wav_bytes([5] * 20))
        kept = ("--speakers", root / "quiet", "--speaker", "anna")
        self.listen("s0-u00", *kept)
        before = (root / "quiet/anna.safetensors").read_bytes()
        must("listen", "--model", self.model, "--graph", root / "graph", *kept, root / "silent.wav")
        self.assertEqual((root / "quiet/anna.safetensors").read_bytes(), before)
        must("listen", "--model", self.model, "--graph", root / "graph", *kept, root / "short.wav")
        self.assertEqual((root / "quiet/anna.safetensors").read_bytes(), before)

    def test_an_adapted_model_keeps_its_extractor(self):
        root = self.root
        must("adapt", self.model, "--data", root / "corpus", "--graph", root / "graph", "--old-store", root / "vector-store",
             "--out", root / "adapted", "--set", "train.data.minibatch=64", "--set", "train.schedule.epochs=1", "--set",
             "kld.rho=[0.5]")
        must("decode", "--model", root / "adapted/adapted.safetensors", "--graph", root / "graph", root / "corpus",
             root / "adapted-words")


if __name__ == "__main__":
    system.PROGRAM = sys.argv[2]
    unittest.main(argv=sys.argv[:1])
