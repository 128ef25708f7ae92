"""What the package says is what `antiphon decode`, `listen` and `align` print, however the samples are cut."""

import json
import random
import shutil
import struct
import subprocess
import unittest

import numpy as np
import package
import small_system
from small_system import RATE, must, speech
from system import SystemTest

antiphon = package.optional("antiphon")


@package.need("antiphon")
class AsProgram(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        root = cls.root
        cls.make_chain_model()
        # Each with its graph, and in what it computes.
        cls.systems = [(root / f"{name}/model.safetensors", root / graph, precision)
                       for name, graph in (("net", "graph"), ("chain-net", "chain-graph")) for precision in ("fp32", "int8")]
        cls.audio = root / "audio"  # without a table of speakers: each file is all that somebody says
        cls.audio.mkdir()
        for file in sorted((root / "corpus").glob("*.wav"))[:8]:
            shutil.copy(file, cls.audio)

    @classmethod
    def make_chain_model(cls):
        """A chain model, whose frames are three of its features' each."""
        root = cls.root
        must("chain", "--alignment", root / "align", "--data", root / "gmm", root / "chain")
        must("store", "--features", root / "feats/feats.scp", "--cmvn", root / "feats/cmvn.scp", "--utt2spk",
             root / "feats/utt2spk", "--alignment", root / "chain/pdf.scp", "--hmm", root / "chain/model.safetensors",
             "--out", root / "chain-store")
        (root / "chain.toml").write_text(small_system.CHAIN_NETWORK)
        must("train", "--config", root / "chain.toml", "--store", root / "chain-store", "--hmm",
             root / "chain/model.safetensors", "--front-end", root / "feats/front_end.toml", "--out", root / "chain-net",
             "--set", "sequence.criterion=chain", "--set", f"sequence.chain-data={root / 'chain'}", "--set",
             "data.chunk-frames=30", "--set", "data.minibatch=240", "--set", "data.left-context=0", "--set",
             "data.right-context=0", "--set", "schedule.epochs=30", "--set", "optimizer.max-change=0.5", "--set",
             "schedule.learning-rate=2", "--seed", 1)
        must("graph", "--model", root / "chain/model.safetensors", "--lexicon", root / "lexicon.txt", "--grammar",
             root / "grammar.txt", "--out", root / "chain-graph")

    def check_words(self, words, printed, ending):
        self.assertEqual([(word.word, round(word.start, 3), round(ending(word), 3), word.confidence) for word in words],
                         [(w["word"], w["start"], w["end"] if "end" in w else w["duration"], w.get("confidence", -1))
                          for w in printed])

    def test_decode(self):
        for model, graph, precision in self.systems:
            with self.subTest(model=model, precision=precision):
                self.check_decode(model, graph, precision)

    def check_decode(self, model, graph, precision):
        out = self.root / f"decoded-{model.parent.name}-{precision}"
        must("decode", "--model", model, "--graph", graph, "--nnet.precision", precision, "--nbest", 3, self.audio, out)
        recognizer = antiphon.Recognizer(model, graph, precision=precision)
        lines = (out / "results.jsonl").read_text().splitlines()
        self.assertEqual(len(lines), 8)
        hypotheses, words = "", 0
        for line in map(json.loads, lines):
            name = line.get("utt_id") or line["utterance"]
            found = recognizer.recognize(self.audio / f"{name}.wav", nbest=3)
            self.assertEqual(found.text, line["text"])
            words += len(found.words)
            self.check_words(found.words, line["words"], lambda word: word.end - word.start)
            hypotheses += "".join(f"{name}-{rank} {h.cost:.3f} {h.text}\n" for rank, h in enumerate(found.nbest, 1))
        self.assertGreaterEqual(words, 8)
        printed = [line.split(maxsplit=4) for line in (out / "nbest.txt").read_text().splitlines()]
        self.assertEqual(hypotheses, "".join(" ".join((line[0], line[1], *line[4:])).rstrip() + "\n" for line in printed))

    def test_listen(self):
        random_ = random.Random(5)
        pause = [int(random_.gauss(0, 40)) for _ in range(RATE)]
        samples = speech("AB", random_) + pause + speech("BAB", random_)
        for model, graph, precision in self.systems:
            with self.subTest(model=model, precision=precision):
                self.check_listen(model, graph, precision, samples, random_)

    def check_listen(self, model, graph, precision, samples, random_):
        raw = struct.pack(f"<{len(samples)}h", *samples)
        printed = subprocess.run([small_system.PROGRAM, "listen", "--model", model, "--graph", graph, "--nnet.precision",
                                  precision], input=raw, capture_output=True, timeout=100, check=True)
        lines = [json.loads(line) for line in printed.stdout.splitlines()]
        self.assertGreaterEqual(sum(line["final"] for line in lines), 1)
        self.assertTrue(any(line["words"] for line in lines if line["final"]))
        self.assertTrue(any(line["words"] for line in lines if not line["final"]))
        recognizer = antiphon.Recognizer(model, graph, precision=precision)
        given = np.array(samples, dtype=np.int16)
        for lengths in ((len(given),), (1, 7, 160, 3001)):
            with recognizer.stream(RATE) as stream:
                events, at = [], 0
                while at < len(given):
                    piece = given[at:at + random_.choice(lengths)]
                    events += stream.accept(piece)
                    at += len(piece)
                events += stream.end()
            self.assertEqual([(event.final, event.text, round(event.start, 3), round(event.end, 3)) for event in events],
                             [(line["final"], line["text"], line["start"], line["end"]) for line in lines])
            for event, line in zip(events, lines):
                self.assertEqual(" ".join(word.word for word in event.words), event.text)
                self.check_words(event.words, line["words"], lambda word: word.end)

    def test_words_so_far_were_said_when_the_result_says_it(self):
        """What ends in a pause is not heard otherwise any more: its words begin at the same frame in the last partial
        result and in the final one. Only the words of the last step may still move, or be others."""
        random_ = random.Random(6)
        samples = np.array(speech("ABA", random_), dtype=np.int16)
        for model, graph, precision in self.systems:
            with self.subTest(model=model, precision=precision):
                stream = antiphon.Recognizer(model, graph, precision=precision).stream(RATE, step_frames=3)
                events = stream.accept(samples) + stream.end()
                self.assertTrue(events[-1].final)
                last = [event for event in events if not event.final and event.words][-1]
                final = {(word.word, round(word.start, 3)) for word in events[-1].words}
                so_far = [(word.word, round(word.start, 3)) for word in last.words]
                self.assertTrue(so_far)
                self.assertLessEqual(set(so_far), final, events)

    def test_align(self):
        text = dict(line.split(maxsplit=1) for line in (self.root / "corpus/text").read_text().splitlines())
        names = [file.stem for file in self.audio.glob("*.wav")]
        (self.root / "text.tsv").write_text("".join(f"{name}\t{text[name]}\n" for name in names))
        gaussians = (self.root / "align/model.safetensors", None, "fp32")
        for model, _, precision in [*self.systems, gaussians]:
            with self.subTest(model=model, precision=precision):
                self.check_align(model, precision, text, names)

    def check_align(self, model, precision, text, names):
        out = self.root / f"aligned-{model.parent.name}-{precision}"
        must("align", "--model", model, "--data", self.audio, "--transcripts", self.root / "text.tsv", "--lexicon",
             self.root / "lexicon.txt", "--nnet.precision", precision, "--out", out, "--files", "json")
        aligner = antiphon.Aligner(model, self.root / "lexicon.txt", precision=precision)
        for name in names:
            found = aligner.align(self.audio / f"{name}.wav", text[name])
            printed = json.loads((out / f"json/{name}.json").read_text())
            self.assertEqual(found.log_likelihood, printed["log_likelihood"])
            for word, line in zip(found.words, printed["words"], strict=True):
                self.assertEqual((word.word, round(word.start, 3), round(word.end, 3)),
                                 (line["word"], line["start"], line["end"]))
                self.assertEqual([(phone.phone, round(phone.start, 3), round(phone.end, 3)) for phone in word.phones],
                                 [(phone["phone"], phone["start"], phone["end"]) for phone in line["phones"]])


if __name__ == "__main__":
    package.main()
