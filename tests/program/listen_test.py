"""antiphon listen from outside: the same words however the samples arrive, and an answer to what cannot be heard.

Usage: listen_test.py SOURCE-TREE PROGRAM
"""

import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import unittest

import small_system as system
from small_system import RATE


class Listen(system.SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random_ = random.Random(2)
        cls.words = ["A", "B", "B", "A", "B"]  # one tone twice without a pause between would be one word
        # A second of silence between two utterances ends the first.
        pause = [int(random_.gauss(0, 40)) for _ in range(RATE)]
        samples = system.speech(cls.words[:2], random_) + pause + system.speech(cls.words[2:], random_)
        cls.raw = struct.pack(f"<{len(samples)}h", *samples)
        (cls.root / "call.wav").write_bytes(system.wav_bytes(samples))

    def listen(self, *more, model="net/model.safetensors", pieces=()):
        command = [system.PROGRAM, "listen", "--model", self.root / model, "--graph", self.root / "graph", *more]
        with subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            try:
                for piece in pieces:
                    process.stdin.write(piece)
                    process.stdin.flush()
            except BrokenPipeError:
                pass
            out, err = process.communicate(timeout=100)
        return process.returncode, out.decode(), err.decode()

    def lines(self, *more, **given):
        status, out, err = self.listen(*more, **given)
        self.assertEqual(status, 0, err)
        return [json.loads(line) for line in out.splitlines()]

    def test_hears_what_was_said_and_when(self):
        lines = self.lines(self.root / "call.wav")
        final = [line for line in lines if line["final"]]
        self.assertEqual([word for line in final for word in line["text"].split()], self.words)
        self.assertGreater(len(final), 1)
        self.assertGreater(len(lines), len(final))
        end = 0.0
        for word in (word for line in final for word in line["words"]):
            self.assertGreaterEqual(word["start"], end - 1e-6)
            self.assertGreater(word["end"], word["start"])
            self.assertTrue(0 <= word["confidence"] <= 1 + 1e-6, word)
            end = word["end"]
        self.assertLess(end, len(self.raw) / 2 / RATE + 0.05)

    def test_gives_the_same_however_the_samples_arrive(self):
        whole = self.lines("--no-partial", self.root / "call.wav")
        self.assertTrue(all(line["final"] for line in whole))
        random_ = random.Random(3)
        pieces, at = [], 0
        while at < len(self.raw):
            length = random_.choice([1, 7, 160, 3001])
            pieces.append(self.raw[at:at + length])
            at += length
        self.assertEqual(self.lines("--no-partial", pieces=pieces), whole)
        # An odd byte behind the last sample is none.
        self.assertEqual(self.lines("--no-partial", "-", pieces=[self.raw, b"x"]), whole)
        status, out, err = self.listen("--json", pieces=[self.raw])
        self.assertEqual(status, 0, err)
        self.assertEqual(json.loads(out)["utterances"], whole)

    def test_takes_samples_of_another_rate(self):
        samples = struct.unpack(f"<{len(self.raw) // 2}h", self.raw)
        doubled = [value for here, after in zip(samples, samples[1:] + samples[-1:]) for value in (here, (here + after) // 2)]
        lines = self.lines("--no-partial", "--rate", 2 * RATE, pieces=[struct.pack(f"<{len(doubled)}h", *doubled)])
        self.assertEqual([word for line in lines for word in line["text"].split()], self.words)
        _, _, err = self.listen("--rate", RATE // 2, pieces=[self.raw])
        self.assertIn(f"{RATE // 2} Hz", err)

    def test_who_asks_to_stop_gets_what_was_heard(self):
        """Of samples that come from another program, too, which may send no more."""
        command = [system.PROGRAM, "listen", "--model", self.root / "net/model.safetensors", "--graph", self.root / "graph"]
        with subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=False) as process:
            try:
                process.stdin.write(self.raw)
                process.stdin.flush()
                heard = []
                while not heard or heard[-1]["final"] or heard[-1]["text"].split() != self.words[2:]:
                    line = process.stdout.readline()
                    self.assertTrue(line, "it ended by itself")
                    heard.append(json.loads(line))
                process.send_signal(signal.SIGTERM)
                heard += [json.loads(line) for line in process.stdout]
                self.assertEqual(process.wait(100), 0, process.stderr.read())
            finally:
                process.kill()
        final = [line["text"] for line in heard if line["final"]]
        self.assertEqual([word for text in final for word in text.split()], self.words)

    def test_samples_that_cannot_be_read_are_no_end(self):
        command = [system.PROGRAM, "listen", "--model", self.root / "net/model.safetensors", "--graph", self.root / "graph"]
        folder = os.open(self.root, os.O_RDONLY)
        try:
            done = subprocess.run([str(part) for part in command], stdin=folder, capture_output=True, text=True, timeout=100)
        finally:
            os.close(folder)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cannot read standard input", done.stderr)

    def test_nothing_to_hear(self):
        status, out, err = self.listen("--json")
        self.assertEqual(status, 0, err)
        self.assertEqual(json.loads(out)["utterances"], [])
        self.assertIn("there is no audio", err)
        status, out, err = self.listen("--json", pieces=[bytes(2 * RATE)])
        self.assertEqual(status, 0, err)
        self.assertTrue(json.loads(out)["audio_remarks"], "silence is worth a remark")

    def test_a_hotword_that_pays_for_itself_does_not_keep_an_utterance_open(self):
        pause = bytes(2 * RATE)
        hotwords = self.root / "eager.txt"
        hotwords.write_text("A\t4\n")
        given = [self.raw, pause, self.raw]
        heard, plain = [[(line["text"], line["end"]) for line in self.lines("--no-partial", *more, pieces=given)]
                        for more in (("--hotwords", hotwords), ())]
        self.assertEqual(heard, plain)

    def test_hears_a_speaker_with_the_speakers_profile(self):
        root = self.root
        shutil.copytree(root / "corpus", root / "exchanged")
        exchanged = (root / "exchanged/text").read_text().translate(str.maketrans("AB", "BA"))
        (root / "exchanged/text").write_text(exchanged)  # so that the profile changes what is heard
        system.must("adapt", root / "net/model.safetensors", "--out", root / "adapted", "--data", root / "exchanged",
                    "--graph", root / "graph", "--method", "lhuc", "--speaker", "s1", "--set", "train.data.minibatch=64",
                    "--set", "train.schedule.epochs=12", "--set", "train.schedule.learning-rate=3.0")
        profile = root / "adapted/profile.safetensors"

        def heard(*more, **given):
            lines = self.lines("--no-partial", *more, root / "call.wav", **given)
            return [word["word"] for line in lines for word in line["words"]]

        own = heard(model="adapted/adapted.safetensors")
        self.assertNotEqual(own, self.words)
        for precision in ("fp32", "int8"):
            self.assertEqual(heard("--profile", profile, "--nnet.precision", precision), own)
        (root / "cut.safetensors").write_bytes(profile.read_bytes()[:-4])
        for model, file, text in (("other", profile, "the profile of 's1' is for model"),
                                  ("net", root / "cut.safetensors", "")):
            status, out, err = self.listen("--profile", file, root / "call.wav", model=f"{model}/model.safetensors")
            self.assertEqual((status, out), (1, ""), err)
            self.assertIn(f"profile '{file}'", err)
            self.assertIn(text, err)

    def test_rescores_with_a_larger_language_model(self):
        root, call = self.root, self.root / "call.wav"
        (root / "few.txt").write_text("A B\n")
        (root / "many.txt").write_text("A B\nB A B\nA B A\n")
        for name, order in (("few", 1), ("many", 3)):
            system.must("lm", "--text", root / f"{name}.txt", "--order", order, root / f"{name}.arpa")
        plain = self.lines("--no-partial", call)
        same = self.lines("--no-partial", "--graph-arpa", root / "few.arpa", "--rescore-arpa", root / "few.arpa", call)
        self.assertEqual(same, plain)
        other = self.lines("--no-partial", "--graph-arpa", root / "few.arpa", "--rescore-arpa", root / "many.arpa",
                           call)
        self.assertEqual([line["text"] for line in other], [line["text"] for line in plain])
        self.assertNotEqual(other, plain, "confidences")
        status, _, err = self.listen("--rescore-arpa", root / "many.arpa", call)
        self.assertEqual(status, 2)
        self.assertIn("--rescore-arpa and --graph-arpa belong together", err)
        (root / "other.txt").write_text("A C\n")
        system.must("lm", "--text", root / "other.txt", root / "other.arpa")
        status, _, err = self.listen("--graph-arpa", root / "few.arpa", "--rescore-arpa", root / "other.arpa", call)
        self.assertEqual(status, 0, err)
        self.assertIn("lacks 2 of the 3 words of the graph", err)  # B and <SIL>

    def test_names_of_recordings_are_any_bytes(self):
        folder = os.fsencode(self.root / "named")
        os.mkdir(folder)
        for name, contents in ((b"a\xe9.wav", (self.root / "call.wav").read_bytes()),
                               (b"b\xe9.wav", system.wav_bytes([0] * RATE))):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(contents)
        command = [system.PROGRAM, "listen", "--model", self.root / "net/model.safetensors", "--graph",
                   self.root / "graph", folder]
        for more in ((), ("--json",)):
            done = subprocess.run([os.fsencode(part) for part in (*command, *more)], capture_output=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
            utterances = lines[0]["utterances"] if more else [line for line in lines if line["final"]]
            self.assertEqual([word for line in utterances for word in line["text"].split()], self.words)
            self.assertEqual(utterances[0]["recording"], "a\ufffd.wav")
        self.assertTrue(any(remark.startswith("b\ufffd.wav") for remark in lines[0]["audio_remarks"]), lines)

    def test_refuses_what_it_cannot_hear(self):
        def refused(status, text, *more):
            got, out, err = self.listen(*more, pieces=[self.raw])
            self.assertEqual((got, out), (status, ""), err)
            self.assertIn(text, err)

        refused(2, "must be 0 … 384000", "--rate", 400000)
        refused(1, "'missing' does not exist", "missing")
        wav = system.wav_bytes([0] * RATE)
        status, out, err = self.listen(pieces=[wav[:3], wav[3:]])
        self.assertEqual((status, out), (1, ""), err)
        self.assertIn("standard input is an audio file", err)
        refused(2, "--rate is of samples", "--rate", RATE, self.root / "call.wav")
        refused(1, "missing.wav", self.root / "missing.wav")
        refused(1, "cannot", "--hotwords", self.root / "missing.txt")
        (self.root / "cut.wav").write_bytes((self.root / "call.wav").read_bytes()[:40])
        refused(1, "cut.wav", self.root / "cut.wav")
        refused(1, "missing.safetensors", "--profile", self.root / "missing.safetensors")
        refused(1, "no speaker's profile", "--profile", self.root / "net/model.safetensors")
        (self.root / "names.txt").write_text("A\t1\nZEBRA\n")
        status, _, err = self.listen("--hotwords", self.root / "names.txt", pieces=[self.raw])
        self.assertEqual(status, 0, err)
        self.assertIn("ZEBRA", err)


if __name__ == "__main__":
    system.PROGRAM = sys.argv.pop(2)
    sys.argv.pop(1)
    unittest.main(verbosity=1)
