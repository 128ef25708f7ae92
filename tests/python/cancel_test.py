"""A CancelToken ends long calls: from a callback, from another thread, from what the library says, and before they
begin."""

import logging
import random
import signal
import threading
import unittest

import numpy as np
import package
from small_system import RATE, speech, wav_bytes
from system import SystemTest

antiphon = package.optional("antiphon")
LAYERS = [{"type": "affine", "dim": 8}, {"type": "relu"}, {"type": "affine"}]
TRAINING = {"schedule": {"epochs": 100000}, "data": {"minibatch": 64}}


@package.need("antiphon")
class Cancel(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.root / "net/model.safetensors"
        cls.recognizer = antiphon.Recognizer(cls.model, cls.root / "graph")
        cls.aligner = antiphon.Aligner(cls.model, cls.root / "lexicon.txt")
        cls.audio = cls.root / "audio"  # of which the library says how much it is, before it is recognised
        cls.audio.mkdir()
        (cls.audio / "a.wav").write_bytes(wav_bytes(speech("ABBA", random.Random(4))))
        (cls.audio / "a.txt").write_text("A B B A")
        cls.long = np.tile(np.array(speech("ABBA", random.Random(4)), dtype=np.int16), 200)

    def train(self, out, token, **more):
        return antiphon.train(self.root / "store", self.root / out, network=LAYERS, log_steps=1, threads=1,
                              cancel=token, **{"schedule": TRAINING["schedule"], "data": {"minibatch": 64}} | more)

    def calls(self):
        """(name, call) of all that take a token."""
        store = self.root / "store"
        yield "recognize", lambda token: self.recognizer.recognize(self.long, RATE, cancel=token)
        yield "recognize_file", lambda token: self.recognizer.recognize(self.root / "corpus/s0-u00.wav", cancel=token)
        yield "align", lambda token: self.aligner.align(self.long, "A B B A", RATE, cancel=token)
        yield "align_file", lambda token: self.aligner.align(self.root / "corpus/s0-u00.wav", "A B", cancel=token)
        yield "decode", lambda token: antiphon.decode(self.model, self.audio, self.root / "early",
                                                      graph=self.root / "graph", cancel=token)
        yield "align_corpus", lambda token: antiphon.align(self.audio, self.root / "early", model=self.model,
                                                           lexicon=self.root / "lexicon.txt", cancel=token)
        yield "check_corpus", lambda token: antiphon.check_corpus(self.audio, cancel=token,
                                                                  lexicon=self.root / "lexicon.txt")
        yield "stream", lambda token: self.recognizer.stream(RATE, cancel=token).accept(self.long)
        yield "train", lambda token: self.train("early", token)
        yield "compress", lambda token: antiphon.Compressor(self.model, "svd", store=store, train=TRAINING).run(
            self.root / "early", cancel=token)
        yield "adapt", lambda token: antiphon.Adapter(self.model, store=store, train=TRAINING).run(
            self.root / "early", cancel=token)
        yield "train_g2p", lambda token: antiphon.train_g2p(self.root / "lexicon.txt", self.root / "early.g2p",
                                                            iterations=100, cancel=token)

    def test_before_the_call(self):
        token = antiphon.CancelToken()
        self.assertEqual((token.cancelled, repr(token)), (False, "<antiphon.CancelToken, not cancelled>"))
        token.cancel()
        token.cancel()
        self.assertEqual((token.cancelled, repr(token)), (True, "<antiphon.CancelToken, cancelled>"))
        for name, call in self.calls():
            with self.subTest(name), self.assertRaises(antiphon.Cancelled):
                call(token)
            with self.subTest(f"{name} by another thread"):
                raised = []

                def work():
                    try:
                        call(token)
                    except antiphon.Cancelled as error:
                        raised.append(error)

                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
                self.assertEqual(len(raised), 1)
        self.assertFalse([left for pattern in ("early/*.safetensors", "early.g2p", "early/text", "early/*.ctm")
                          for left in self.root.glob(pattern)])

    def by_another_thread(self, call):
        """The call's callback waits until another thread has cancelled it."""
        token, reached, cancelled = antiphon.CancelToken(), threading.Event(), threading.Event()

        def other():
            reached.wait(100)
            token.cancel()
            cancelled.set()

        def callback(_):
            reached.set()
            self.assertTrue(cancelled.wait(100))

        thread = threading.Thread(target=other)
        thread.start()
        try:
            with self.assertRaises(antiphon.Cancelled):
                call(token, callback)
        finally:
            reached.set()
            thread.join()
        self.assertTrue(token.cancelled)

    def test_from_another_thread(self):
        self.by_another_thread(lambda token, callback: self.recognizer.recognize(self.long, RATE, progress=callback,
                                                                                 cancel=token))
        self.by_another_thread(lambda token, callback: self.train("other", token, on_metrics=callback))

    def test_from_the_main_thread(self):
        token, reached, raised = antiphon.CancelToken(), threading.Event(), []

        def work():
            try:
                self.train("worker", token, on_metrics=lambda record: reached.set())
            except antiphon.Cancelled as error:
                raised.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        self.assertTrue(reached.wait(100))
        token.cancel()
        thread.join()
        self.assertEqual(len(raised), 1)

    def test_a_training_goes_on_where_it_was_cancelled(self):
        def some(out, token, **more):
            return self.train(out, token, hmm=self.root / "align/model.safetensors",
                              schedule={"epochs": 2, "learning_rate": 0.05, "final_learning_rate": 0.005}, **more)

        token = antiphon.CancelToken()
        with self.assertRaises(antiphon.Cancelled):
            some("cancelled", token, on_metrics=lambda record: token.cancel() if record.get("step") == 2 else None)
        self.assertFalse((self.root / "cancelled/model.safetensors").exists())
        some("cancelled", antiphon.CancelToken(), resume=True)
        some("whole", None)
        self.assertEqual((self.root / "cancelled/model.safetensors").read_bytes(),
                         (self.root / "whole/model.safetensors").read_bytes())

    def test_from_what_the_library_says(self):
        class Handler(logging.Handler):
            def emit(self, record):
                token.cancel()

        logger = logging.getLogger("antiphon")
        for name, call in self.calls():
            # Python hears it in a thread of its own; a corpus this small may be decoded by then (tests/api/corpus_test.cc).
            if name not in ("compress", "adapt"):
                continue
            token, handler, level = antiphon.CancelToken(), Handler(), logger.level
            logger.setLevel(logging.INFO)
            logger.addHandler(handler)
            try:
                with self.subTest(name), self.assertRaises(antiphon.Cancelled):
                    call(token)
            finally:
                logger.removeHandler(handler)
                logger.setLevel(level)
            self.assertTrue(token.cancelled)

    def test_a_stream_ends_between_two_pieces(self):
        token = antiphon.CancelToken()
        stream = self.recognizer.stream(RATE, cancel=token)
        stream.accept(self.long[:RATE])
        token.cancel()
        with self.assertRaises(antiphon.Cancelled):
            stream.accept(self.long[:RATE])
        self.assertTrue(stream.ended)
        for call in (lambda: stream.accept(self.long[:RATE]), stream.end):
            with self.assertRaises(antiphon.Cancelled):
                call()
        others = self.recognizer.stream(RATE)  # is not touched
        others.accept(self.long[:RATE])
        self.assertTrue(others.end())

    def test_a_signal_ends_the_call_and_not_the_token(self):
        token = antiphon.CancelToken()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with self.assertRaises(KeyboardInterrupt):
                self.train("signalled", token, on_metrics=lambda record: signal.raise_signal(signal.SIGINT))
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertFalse(token.cancelled)
        self.assertTrue(self.recognizer.recognize(self.root / "corpus/s0-u00.wav", cancel=token).text)

    def test_what_is_no_token_is_refused(self):
        for name, call in self.calls():
            with self.subTest(name), self.assertRaisesRegex(TypeError, "cancel: expected CancelToken, not Event"):
                call(threading.Event())


if __name__ == "__main__":
    package.main()
