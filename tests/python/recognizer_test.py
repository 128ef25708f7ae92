"""Recognizer says what antiphon decode says, from files and arrays; train does what the command does."""

import contextlib
import dataclasses
import json
import os
import random
import signal
import threading
import traceback
import unittest

import numpy as np
import package
from small_system import RATE, must, speech, wav_bytes
from system import SystemTest

antiphon = package.optional("antiphon")


class Interrupted(Exception):
    pass


def interrupt(*_):
    raise Interrupted


@contextlib.contextmanager
def signalled(seconds, handler):
    """A signal comes after so long."""
    before = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        yield
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


@package.need("antiphon")
class Recognizer(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.recognizer = antiphon.Recognizer(cls.root / "net/model.safetensors", cls.root / "graph")

    def test_words_are_those_of_decode(self):
        must("decode", "--model", self.root / "net/model.safetensors", "--graph", self.root / "graph",
             self.root / "corpus", self.root / "decoded")
        words = dict(line.partition(" ")[::2] for line in (self.root / "decoded/text").read_text().splitlines())
        # decode normalises by speaker, which is the same where a file is all that there is of one.
        agree = sum(self.recognizer.recognize(self.root / f"corpus/{utt_id}.wav").text == text.strip()
                    for utt_id, text in words.items())
        self.assertGreaterEqual(agree, len(words) - 4)

    def test_arrays_give_what_files_give(self):
        samples = np.array(speech("ABBA", random.Random(4)), dtype=np.int16)
        (self.root / "one.wav").write_bytes(wav_bytes(samples.tolist()))
        found = self.recognizer.recognize(samples, RATE)
        self.assertEqual([w.word for w in found.words], found.text.split())
        self.assertEqual(found.text, self.recognizer.recognize(str(self.root / "one.wav")).text)
        self.assertEqual(found, self.recognizer.recognize(samples / np.float32(32768), RATE))
        contents = (self.root / "one.wav").read_bytes()
        for kind in (bytes, bytearray, memoryview):
            self.assertEqual(self.recognizer.recognize(kind(contents)).text, found.text)
        for bad, text in ((b"", "audio"), (contents[:30], "audio"), (b"no sound at all" * 9, "audio")):
            with self.assertRaisesRegex(antiphon.InputError, text):
                self.recognizer.recognize(bad)
        with self.assertRaisesRegex(antiphon.UsageError, "channel 3"):
            self.recognizer.recognize(contents, channel=3)
        for word, following in zip(found.words, found.words[1:]):
            self.assertLess(word.start, word.end)
            self.assertLessEqual(word.end, following.start)
            self.assertTrue(0 <= word.confidence <= 1)
        self.assertEqual(set(self.recognizer.vocabulary) & {"A", "B"}, {"A", "B"})

    def test_says_what_is_wrong_with_the_sound(self):
        samples = np.array(speech("ABBA", random.Random(4)), dtype=np.float32) / 32768
        self.assertEqual(self.recognizer.recognize(samples, RATE).audio_remarks, ())
        narrow, clipped = self.recognizer.recognize(np.clip(100 * samples[::2], -1, 1), RATE // 2).audio_remarks
        self.assertIn(f"nothing is heard above {RATE // 4} Hz", narrow)
        self.assertIn("clipped", clipped)

    @package.need("soundfile")
    def test_mp3_is_recognised(self):
        import soundfile

        if "MP3" not in soundfile.available_formats():
            self.skipTest("this soundfile writes no MP3")
        mp3 = self.root / "ABBA.mp3"
        soundfile.write(mp3, np.array(speech("ABBA", random.Random(4)), dtype=np.int16), RATE, format="MP3")
        self.assertEqual(self.recognizer.recognize(mp3).text, "A B B A")
        self.assertEqual(self.recognizer.recognize(mp3.read_bytes()).text, "A B B A")

    def test_results_are_json_as_the_program_has_it(self):
        file = self.root / "corpus/s0-u00.wav"
        found = self.recognizer.recognize(file, nbest=2)
        told = json.loads(found.json())
        self.assertEqual(told["text"], found.text)
        self.assertEqual([(word["word"], word["start"]) for word in told["words"]],
                         [(word.word, round(word.start, 2)) for word in found.words])
        self.assertEqual(told["nbest"], [dataclasses.asdict(hypothesis) for hypothesis in found.nbest])
        self.assertNotIn("remark", told)
        for hypothesis in found.nbest:
            self.assertNotEqual(hypothesis.graph_cost, 0)
            self.assertNotEqual(hypothesis.acoustic_cost, 0)
        self.assertNotIn("\n", found.json())
        self.assertEqual(json.loads(antiphon.Recognition("M\udcfcller", (), "").json())["text"], "M\ufffdller")
        self.assertIn("remark", json.loads(self.recognizer.recognize(np.zeros(8000, np.int16), RATE).json()))
        with self.recognizer.stream(RATE) as stream:
            events = stream.accept(np.array(speech("ABBA", random.Random(4)), dtype=np.int16)) + stream.end()
        first, last = json.loads(events[0].json()), json.loads(events[-1].json())
        self.assertEqual((first["final"], list(first)), (False, ["final", "start", "end", "text", "words"]))
        self.assertEqual((last["final"], last["text"]), (True, events[-1].text))
        self.assertEqual(len(last["words"]), len(events[-1].words))

    def test_a_profile_is_of_its_model(self):
        model, file = self.root / "net/model.safetensors", self.root / "corpus/s1-u01.wav"
        must("adapt", model, "--data", self.root / "corpus", "--lexicon", self.root / "lexicon.txt", "--speaker", "s1",
             "--method", "lhuc", "--set", "train.data.minibatch=64", "--set", "train.held-out.fraction=0.3", "--set",
             "lhuc.rate=5", "--out", self.root / "of s1")
        profile = self.recognizer.load_profile(self.root / "of s1/profile.safetensors")
        self.assertEqual((profile.speaker, repr(profile)), ("s1", "<antiphon.SpeakerProfile 's1'>"))
        adapted = antiphon.Recognizer(self.root / "of s1/adapted.safetensors", self.root / "graph")
        found = self.recognizer.recognize(file, nbest=3, profile=profile)
        self.assertEqual(found, adapted.recognize(file, nbest=3))
        self.assertNotEqual(found.nbest, self.recognizer.recognize(file, nbest=3).nbest)
        samples = np.array(speech("ABBA", random.Random(4)), dtype=np.int16)
        with self.recognizer.stream(RATE, profile=profile) as stream:
            self.assertEqual(" ".join(e.text for e in stream.accept(samples) + stream.end() if e.final), "A B B A")
        with self.assertRaisesRegex(antiphon.Error, "profile"):
            antiphon.Recognizer(self.root / "other", self.root / "graph").load_profile(
                self.root / "of s1/profile.safetensors")

    def test_a_folder_with_model_and_graph_will_do(self):
        (self.root / "mine").mkdir()
        (self.root / "mine/network").symlink_to(self.root / "net")
        (self.root / "mine/graph").symlink_to(self.root / "graph")
        again = antiphon.Recognizer(self.root / "mine", beam=13.0, lattice_beam=None)
        self.assertIn("mine", repr(again))
        file = self.root / "corpus/s0-u00.wav"
        self.assertEqual(again.recognize(file), self.recognizer.recognize(file))
        said = self.recognizer.recognize(file).text
        self.assertEqual(antiphon.Aligner(self.root / "mine").align(file, said).words,
                         antiphon.Aligner(self.root / "net", self.root / "lexicon.txt").align(file, said).words)
        # What was tuned goes with it, as into a bundle.
        (self.root / "mine/decode-dev").mkdir()
        (self.root / "mine/decode-dev/weights.toml").write_text("weight = broken")
        with self.assertRaisesRegex(antiphon.UsageError, "weights.toml"):
            antiphon.Recognizer(self.root / "mine")

    def test_words_can_be_added(self):
        must("graph", "--model", self.root / "align/model.safetensors", "--lexicon", self.root / "lexicon.txt",
             "--grammar", self.root / "grammar.txt", "--on-the-fly", "--out", self.root / "fly")
        samples = np.array(speech("ABA", random.Random(4)), dtype=np.int16)

        def heard(**options):
            return antiphon.Recognizer(self.root / "net/model.safetensors", self.root / "fly",
                                       **options).recognize(samples, RATE).text

        self.assertEqual(heard(), "A B A")
        self.assertEqual(heard(add_words={"Mine": "a b a"}), "Mine")
        for wrong, error, text in (("Mine", TypeError, "not str"), (["Mine"], antiphon.InputError, "pronounces"),
                                   ({"Mine": "a x"}, antiphon.InputError, "x")):
            with self.assertRaisesRegex(error, text):
                heard(add_words=wrong)
        with self.assertRaisesRegex(antiphon.Error, "on-the-fly"):
            antiphon.Recognizer(self.root / "net/model.safetensors", self.root / "graph", add_words={"Mine": "a b a"})

    def test_a_bundle_will_do(self):
        must("bundle", "--model", self.root / "net/model.safetensors", "--graph", self.root / "graph", "--out",
             self.root / "mine.antiphon")
        file = self.root / "corpus/s0-u00.wav"
        again = antiphon.Recognizer(self.root / "mine.antiphon", nbest=2, hotwords={"A": 0.0})
        found = again.recognize(file)
        self.assertEqual(found.words, self.recognizer.recognize(file).words)
        self.assertEqual(found.nbest[0].text, found.text)
        aligned = antiphon.Aligner(self.root / "mine.antiphon").align(file, found.text)
        self.assertEqual([word.word for word in aligned.words], found.text.split())
        self.assertEqual(antiphon.Aligner(self.root / "mine.antiphon").align(file.read_bytes(), found.text).words,
                         aligned.words)
        self.assertEqual([[phone.phone[0] for phone in word.phones] for word in aligned.words],
                         [[word.lower()] for word in found.text.split()])
        self.assertEqual((aligned.unaligned, aligned.retried), ((), False))
        self.assertEqual([line.split()[4] for line in aligned.ctm("one", phones=True, channel="B").splitlines()],
                         [phone.phone for phone in aligned.phones])
        self.assertEqual([word["word"] for word in json.loads(aligned.json())["words"]], found.text.split())
        with self.assertRaisesRegex(antiphon.UsageError, "channel 1"):
            antiphon.Aligner(self.root / "mine.antiphon", precision="int8").align(file, found.text, channel=1)
        with self.assertRaisesRegex(TypeError, "Aligner has no setting 'bean'"):
            antiphon.Aligner(self.root / "mine.antiphon", bean=3)
        aligned.to_textgrid(self.root / "one.TextGrid")
        self.assertIn('name = "phones"', (self.root / "one.TextGrid").read_text())
        with self.assertRaisesRegex(antiphon.InputError, "ZEBRA"):
            antiphon.Aligner(self.root / "net/model.safetensors", self.root / "lexicon.txt").align(file, "ZEBRA")

    def test_streams_say_the_same_however_samples_come(self):
        samples = np.array(speech("ABBA", random.Random(4)), dtype=np.int16)
        whole = self.recognizer.stream(RATE)
        events = whole.accept(samples) + whole.end()
        pieces = []
        with self.recognizer.stream(rate=RATE) as stream:
            for piece in np.split(samples, [1, 77, 4000, 4003]):
                pieces += stream.accept(piece / np.float32(32768))
            pieces += stream.end()
        self.assertEqual(pieces, events)
        self.assertTrue(events[-1].final)
        self.assertEqual(" ".join(event.text for event in events if event.final), "A B B A")
        with self.assertRaisesRegex(antiphon.UsageError, "ended"):
            stream.accept(samples)

    def test_a_block_without_end_keeps_the_rest(self):
        samples = np.array(speech("ABBA", random.Random(4)), dtype=np.int16)
        with self.recognizer.stream(RATE) as whole:
            expected = whole.accept(samples) + whole.end()
        self.assertEqual(whole.rest, ())
        with self.recognizer.stream(RATE) as stream:
            said = stream.accept(samples)
        self.assertTrue(stream.ended)
        self.assertTrue(stream.rest)
        self.assertEqual([*said, *stream.rest], expected)

    def test_a_block_that_an_exception_leaves_ends_the_stream(self):
        with self.assertRaises(ZeroDivisionError), self.recognizer.stream(RATE) as stream:
            raise ZeroDivisionError
        self.assertTrue(stream.ended)
        self.assertEqual(repr(stream), "<antiphon.Stream, ended>")
        for call in (stream.end, lambda: stream.accept(np.zeros(800, np.float32))):
            with self.assertRaisesRegex(antiphon.UsageError, "ended"):
                call()

    def test_a_stream_has_settings_of_its_own(self):
        samples = np.array(speech("ABBA", random.Random(4)), dtype=np.int16)

        def heard(**settings):
            stream = self.recognizer.stream(RATE, **settings)
            return [event for event in stream.accept(samples) + stream.end() if event.final]

        self.assertEqual([event.nbest[0].text for event in heard(nbest=3)], [event.text for event in heard()])
        self.assertEqual({word for event in heard(word_list=["A"]) for word in event.text.split()}, {"A"})
        self.assertEqual(heard(hotwords=None, max_utterance=None), heard())
        self.assertNotIn(False, [event.final for event in self.recognizer.stream(RATE, partial=False).accept(samples)])

    def test_what_was_heard_of_a_speaker_can_be_kept(self):
        # Of a model whose frames lose the mean of those before them.
        must("features", self.root / "corpus", "--out", self.root / "online", "--sample-rate", RATE, "--mean-window", 100)
        must("store", "--features", self.root / "online/feats.scp", "--utt2spk", self.root / "online/utt2spk",
             "--alignment", self.root / "align/pdf.scp", "--out", self.root / "online-store")
        run = antiphon.train(self.root / "online-store", self.root / "online-net", hmm=self.root / "align",
                             front_end=self.root / "online/front_end.toml", network=LAYERS, data={"minibatch": 64})
        recognizer = antiphon.Recognizer(run.model, self.root / "graph")
        self.assertTrue(recognizer.uses_memory)
        gaussians = antiphon.Recognizer(self.root / "align/model.safetensors", self.root / "graph")
        self.assertFalse(gaussians.uses_memory)
        file, ann = self.root / "corpus/s0-u00.wav", antiphon.SpeakerMemory("ann")
        self.assertEqual((repr(ann), repr(antiphon.SpeakerMemory())),
                         ("<antiphon.SpeakerMemory 'ann'>", "<antiphon.SpeakerMemory ''>"))

        def kept(memory):
            recognizer.save_memory(memory, self.root / "ann.safetensors")
            return (self.root / "ann.safetensors").read_bytes()

        nothing = kept(ann)
        self.assertEqual(recognizer.recognize(file, memory=ann), recognizer.recognize(file))
        once = kept(ann)
        again = recognizer.load_memory(self.root / "ann.safetensors")
        self.assertEqual((again.speaker, kept(again)), ("ann", once))
        samples = np.array(speech("ABBA", random.Random(4)), dtype=np.int16)
        recognizer.recognize(samples, RATE, memory=ann)
        self.assertEqual(len({nothing, once, kept(ann)}), 3)
        with recognizer.stream(RATE, memory=again) as stream:
            stream.accept(samples)
        self.assertEqual(kept(again), once)  # a stream has its own
        self.assertNotEqual(kept(stream.memory), once)

    def test_progress_is_told_and_may_end_a_call(self):
        samples, told = np.array(speech("ABBA" * 5, random.Random(4)), dtype=np.int16), []
        self.assertEqual(self.recognizer.recognize(samples, RATE, progress=told.append),
                         self.recognizer.recognize(samples, RATE))
        self.assertEqual(told, sorted(told))
        self.assertAlmostEqual(told[-1], len(samples) / RATE, delta=0.05)
        with self.assertRaises(ZeroDivisionError):
            self.recognizer.recognize(samples, RATE, progress=lambda seconds: 1 / 0)

    def test_a_signal_is_heard_within_a_long_call(self):
        hour = np.tile(np.array(speech("ABBA", random.Random(4)), dtype=np.int16), 3000)
        stream = self.recognizer.stream(RATE, partial=False)
        with signalled(0.3, interrupt), self.assertRaises(Interrupted):
            stream.accept(hour)
        self.assertFalse(stream.ended)
        self.assertLess(len(stream.rest), 12000)

    def test_the_handler_of_a_signal_may_end_a_stream(self):
        samples = np.tile(np.array(speech("ABBA", random.Random(4)), dtype=np.int16), 20)
        stream, ended = self.recognizer.stream(RATE), []
        with signalled(0.05, lambda *_: ended.append(stream.end())), self.assertRaisesRegex(antiphon.UsageError, "ended"):
            for _ in range(1000):
                stream.accept(samples)
        self.assertEqual(len(ended), 1)

    def test_a_call_may_ask_for_its_own_hypotheses(self):
        file = self.root / "corpus/s0-u00.wav"
        found = self.recognizer.recognize(file, nbest=3)
        self.assertEqual(found.nbest[0].text, found.text)
        self.assertEqual(found.words, self.recognizer.recognize(file).words)
        self.assertEqual(self.recognizer.recognize(file).nbest, ())
        contents = file.read_bytes()
        self.assertEqual(self.recognizer.recognize(contents, nbest=2).nbest,
                         self.recognizer.recognize(contents, nbest=3).nbest[:2])
        for wrong, kind in ((-1, ValueError), (1001, ValueError), ("3", TypeError)):
            with self.assertRaisesRegex(kind, "nbest"):
                self.recognizer.recognize(file, nbest=wrong)

    def test_a_signal_ends_a_long_recording(self):
        hours = np.tile(np.array(speech("ABBA", random.Random(4)), dtype=np.int16), 3000)
        inside = []
        with signalled(0.3, interrupt):
            try:
                self.recognizer.recognize(hours, RATE)
            except Interrupted as caught:
                # While the library was at work, not once it had done all.
                inside = [line.line for line in traceback.extract_tb(caught.__traceback__)]
        self.assertTrue(any("_core.recognize" in line for line in inside), inside)

    def test_mistakes_are_named(self):
        recognizer = self.recognizer
        (self.root / "noise.wav").write_bytes(b"no audio")
        os.mkfifo(self.root / "pipe")
        for call, kind, text in (
                (lambda: recognizer.recognize("nowhere.wav"), FileNotFoundError, "nowhere.wav"),
                (lambda: recognizer.recognize(self.root / "noise.wav"), antiphon.InputError, "noise.wav"),
                (lambda: recognizer.recognize(np.zeros(800, np.float32)), TypeError, "rate"),
                (lambda: recognizer.recognize(np.zeros((2, 800), np.float32), RATE), ValueError, r"\(2, 800\)"),
                (lambda: recognizer.recognize(np.full(800, np.inf), RATE), ValueError, "finite"),
                (lambda: recognizer.recognize(np.zeros(800, np.int32), RATE), TypeError, "int32"),
                (lambda: recognizer.recognize(np.zeros(800, np.float32), -1), ValueError, "-1 Hz"),
                (lambda: antiphon.Recognizer(self.root), antiphon.InputError, "model.safetensors"),
                (lambda: antiphon.Recognizer(self.root / "net/model.safetensors"), antiphon.UsageError, "graph"),
                (lambda: recognizer.recognize(self.root / "pipe"), antiphon.InputError, "pipe"),
                (lambda: recognizer.recognize(self.root / "pipe", memory="ann"), TypeError, "SpeakerMemory, not str"),
                (lambda: recognizer.recognize(self.root / "pipe", profile=3), TypeError, "SpeakerProfile, not int"),
                (lambda: recognizer.recognize(self.root / "pipe", progress=3), TypeError, "function, not int"),
                (lambda: recognizer.stream(RATE).accept(bytes(800)), TypeError, "frombuffer"),
                (lambda: recognizer.stream(RATE, step_frames=0), antiphon.UsageError, "step-frames"),
                (lambda: recognizer.stream(RATE, beam=3.0), TypeError, "stream has no setting 'beam'"),
                (lambda: recognizer.load_memory(self.root / "noise.wav"), antiphon.InputError, "noise.wav"),
                (lambda: recognizer.load_profile(self.root / "nowhere"), FileNotFoundError, "nowhere"),
                (lambda: antiphon.Recognizer(self.root / "net", self.root / "graph", bean=3), TypeError,
                 "no setting 'bean' .did you mean 'beam'"),
                (lambda: recognizer.recognize(3), TypeError, "audio: expected the path of a file, its contents"),
                (lambda: recognizer.recognize(None, RATE), TypeError, "audio: expected .* not NoneType"),
                (lambda: antiphon.SpeakerMemory(3), TypeError, "^speaker: expected str, not int$"),
                (lambda: antiphon.Recognizer(self.root / "net", self.root / "graph", beam="x"), TypeError,
                 "beam: expected a number")):
            with self.assertRaisesRegex(kind, text):
                call()


LAYERS = [{"type": "affine", "dim": 8}, {"type": "relu"}, {"type": "affine"}]


@package.need("antiphon")
class Training(SystemTest):
    def train(self, out, **options):
        return antiphon.train(self.root / "store", self.root / out, hmm=self.root / "align/model.safetensors",
                              network=LAYERS, **{"data": {"minibatch": 64}, "schedule": {"epochs": 2}} | options)

    def test_a_training_tells_and_leaves_a_model(self):
        records = []
        result = self.train("run", on_metrics=records.append)
        kinds = [record["kind"] for record in records]
        self.assertEqual((kinds[0], kinds[-1], kinds.count("epoch")), ("start", "finish", 2))
        lines = (self.root / "run/metrics.jsonl").read_text().splitlines()
        self.assertEqual(len(lines), len(records))
        self.assertGreater(result.held_out_accuracy, 0.3)
        antiphon.Recognizer(result.model, self.root / "graph").recognize(self.root / "corpus/s0-u00.wav")
        # As the command, bit for bit.
        toml = "".join(f"[[network.layer]]\n" + "".join(f"{k} = {v!r}\n" for k, v in layer.items()) for layer in LAYERS)
        (self.root / "same.toml").write_text(toml)
        must("train", "--config", self.root / "same.toml", "--store", self.root / "store", "--out", self.root / "same",
             "--hmm", self.root / "align", "--set", "data.minibatch=64", "--set",
             "schedule.epochs=2")
        expected = antiphon.Model(self.root / "same/model.safetensors").tensors()
        for name, values in antiphon.Model(result.model).tensors().items():
            np.testing.assert_array_equal(values, expected[name])

    def test_what_the_callback_raises_is_raised(self):
        def refuse(record):
            raise LookupError(record["kind"])

        with self.assertRaisesRegex(LookupError, "start"):
            self.train("refused", on_metrics=refuse)

    def test_an_interrupt_ends_it(self):
        interrupted = threading.Event()

        def interrupt(record):
            if not interrupted.is_set():
                interrupted.set()
                signal.raise_signal(signal.SIGINT)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with self.assertRaises(KeyboardInterrupt):
                self.train("interrupted", schedule={"epochs": 200}, on_metrics=interrupt)
            self.assertTrue(list((self.root / "interrupted/checkpoint").iterdir()))
        finally:
            signal.signal(signal.SIGINT, before)

    def test_mistakes_are_named(self):
        for call, kind, text in ((lambda: antiphon.train("nowhere", "x"), FileNotFoundError, "nowhere"),
                                 (lambda: self.train("x", shcedule={}), antiphon.UsageError, "schedule"),
                                 (lambda: self.train("x", schedule={"epochs": 0.5}), antiphon.UsageError, "epochs"),
                                 (lambda: self.train("x", seed="1"), TypeError, "seed")):
            with self.assertRaisesRegex(kind, text):
                call()


if __name__ == "__main__":
    package.main()
