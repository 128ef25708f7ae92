"""antiphon decode of recordings that are cut, and of nothing but zeros.

Usage: long_recordings_test.py SOURCE-TREE PROGRAM
"""

import gzip
import json
import os
import random
import subprocess
import sys
import unittest

import small_system as system
from small_system import RATE


class LongRecordings(system.SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random_ = random.Random(5)
        cls.words, samples = [], []
        while len(samples) < 140 * RATE:
            words = [random_.choice("AB")]
            for _ in range(random_.randrange(12)):
                words.append("A" if words[-1] == "B" else "B")  # one tone twice without a pause would be one word
            cls.words += words
            # Some pauses end a sentence, others do not.
            samples += system.speech(words, random_) + [int(random_.gauss(0, 40)) for _ in range(random_.randrange(RATE))]
        cls.samples = samples
        (cls.root / "calls").mkdir()
        (cls.root / "calls/long.wav").write_bytes(system.wav_bytes(samples))
        (cls.root / "calls/short.wav").write_bytes(system.wav_bytes(system.speech(["A", "B"], random_)))
        for seconds in (2, 40):
            for name, value in (("zeros", 0), ("muted", -256)):
                (cls.root / f"calls/{name}{seconds}.wav").write_bytes(system.wav_bytes([value] * (seconds * RATE)))

    def decode(self, out, *more):
        system.must("decode", "--model", self.root / "net/model.safetensors", "--graph", self.root / "graph",
                    self.root / "calls", self.root / out, *more)
        with open(self.root / out / "results.jsonl", encoding="utf-8") as results:
            return {line["utt_id"]: line for line in map(json.loads, results)}

    def test_in_pieces_words_and_times_are_those_of_the_whole(self):
        pieces = self.decode("pieces", "--nbest", "2")
        self.assertEqual(pieces["long"]["text"].split(), self.words)
        self.assertEqual((self.root / "pieces/features/utt2parts").read_text().split()[0], "long")
        whole = self.decode("whole", "--cut-above", "10000")
        self.assertEqual(whole["long"]["text"], pieces["long"]["text"])
        self.assertEqual(whole["short"], pieces["short"])
        for one, other in zip(whole["long"]["words"], pieces["long"]["words"]):
            self.assertAlmostEqual(one["start"], other["start"], delta=0.05)
            self.assertTrue(0 <= other["confidence"] <= 1 + 1e-6, other)
        with gzip.open(self.root / "pieces/lattices.gz", "rt") as lattices:
            heads = [line.split() for line in lattices if len(line.split()) == 1]
        self.assertEqual([head[0] for head in heads].count("long"), 1)
        nbest = (self.root / "pieces/nbest.txt").read_text().splitlines()
        self.assertEqual([line.split()[0] for line in nbest if line.startswith("long")], ["long-1", "long-2"])

    def test_cuts_between_words_leave_them_whole(self):
        often = self.decode("often", "--max-piece", "4", "--set", "cut-silence=50")
        self.assertEqual(often["long"]["text"].split(), self.words)

    def test_no_words_are_found_in_zeros(self):
        results = self.decode("zeros")
        for name in ("zeros2", "zeros40", "muted2", "muted40"):
            self.assertEqual(results[name]["text"], "", name)
            self.assertIn("all samples are the same", results[name]["remark"])
        for name in ("zeros2", "muted2"):
            heard = system.must("listen", "--model", self.root / "net/model.safetensors", "--graph", self.root / "graph",
                                "--no-partial", self.root / f"calls/{name}.wav")
            for line in map(json.loads, heard.stdout.splitlines()):
                self.assertEqual(line["text"], "", name)

    def peak_megabytes(self, name, samples):
        folder = self.root / name
        folder.mkdir()
        (folder / "long.wav").write_bytes(system.wav_bytes(samples))
        process = subprocess.Popen(
            [system.PROGRAM, "decode", "--model", self.root / "net/model.safetensors", "--graph", self.root / "graph",
             "--no-lattices", "--quiet", folder, folder / "out"], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        return usage.ru_maxrss / 1024

    def test_memory_does_not_grow_with_the_recording(self):
        short = self.peak_megabytes("once", self.samples)
        self.assertLess(self.peak_megabytes("thrice", 3 * self.samples), short + 40)

    def test_weights_are_chosen_on_pieces_too(self):
        data = self.root / "dev"
        data.mkdir()
        (data / "wav.scp").write_text(f"long {self.root}/calls/long.wav\n")
        (data / "text").write_text("long " + " ".join(self.words) + "\n")
        (data / "utt2spk").write_text("long long\n")
        system.must("decode", "--model", self.root / "net/model.safetensors", "--graph", self.root / "graph", "--tune",
                    data, self.root / "tuned")
        summary = json.loads((self.root / "tuned/summary.json").read_text())
        self.assertEqual(summary["best_error_rate"], 0)


if __name__ == "__main__":
    system.PROGRAM = sys.argv.pop(2)
    sys.argv.pop(1)
    unittest.main(verbosity=1)
