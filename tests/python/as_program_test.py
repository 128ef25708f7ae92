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
        cls.network, cls.graph = cls.root / "net/model.safetensors", cls.root / "graph"
        cls.audio = cls.root / "audio"  # without a table of speakers: each file is all that somebody says
        cls.audio.mkdir()
        for file in sorted((cls.root / "corpus").glob("*.wav"))[:8]:
            shutil.copy(file, cls.audio)

    def check_words(self, words, printed, ending):
        self.assertEqual([(word.word, round(word.start, 3), round(ending(word), 3), word.confidence) for word in words],
                         [(w["word"], w["start"], w["end"] if "end" in w else w["duration"], w["confidence"])
                          for w in printed])

    def test_decode(self):
        must("decode", "--model", self.network, "--graph", self.graph, "--nbest", 3, self.audio, self.root / "decoded")
        recognizer = antiphon.Recognizer(self.network, self.graph)
        lines = (self.root / "decoded/results.jsonl").read_text().splitlines()
        self.assertEqual(len(lines), 8)
        hypotheses = ""
        for line in map(json.loads, lines):
            name = line.get("utt_id") or line["utterance"]
            found = recognizer.recognize(self.audio / f"{name}.wav", nbest=3)
            self.assertEqual(found.text, line["text"])
            self.assertTrue(found.words)
            self.check_words(found.words, line["words"], lambda word: word.end - word.start)
            hypotheses += "".join(f"{name}-{rank} {h.cost:.3f} {h.text}\n" for rank, h in enumerate(found.nbest, 1))
        printed = [line.split(maxsplit=4) for line in (self.root / "decoded/nbest.txt").read_text().splitlines()]
        self.assertEqual(hypotheses, "".join(" ".join((line[0], line[1], *line[4:])).rstrip() + "\n" for line in printed))

    def test_listen(self):
        random_ = random.Random(5)
        pause = [int(random_.gauss(0, 40)) for _ in range(RATE)]
        samples = speech("AB", random_) + pause + speech("BAB", random_)
        raw = struct.pack(f"<{len(samples)}h", *samples)
        printed = subprocess.run([small_system.PROGRAM, "listen", "--model", self.network, "--graph", self.graph],
                                 input=raw, capture_output=True, timeout=100, check=True)
        lines = [json.loads(line) for line in printed.stdout.splitlines()]
        self.assertGreater(sum(line["final"] for line in lines), 1)
        recognizer = antiphon.Recognizer(self.network, self.graph)
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
                self.check_words(event.words, line.get("words", []), lambda word: word.end)

    def test_align(self):
        text = dict(line.split(maxsplit=1) for line in (self.root / "corpus/text").read_text().splitlines())
        names = [file.stem for file in self.audio.glob("*.wav")]
        (self.root / "text.tsv").write_text("".join(f"{name}\t{text[name]}\n" for name in names))
        for model in (self.network, self.root / "align/model.safetensors"):
            out = self.root / f"aligned-{model.parent.name}"
            must("align", "--model", model, "--data", self.audio, "--transcripts", self.root / "text.tsv", "--lexicon",
                 self.root / "lexicon.txt", "--out", out, "--files", "json")
            aligner = antiphon.Aligner(model, self.root / "lexicon.txt")
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
