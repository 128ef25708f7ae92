"""What callers give that cannot be: each is refused by a class of error that says what it is about. Bytes that are no
UTF-8, in names of files, keys and words, come and go as Python has them."""

import errno
import os
import pathlib
import pickle
import resource
import unittest

import numpy as np
import package
from system import SystemTest

antiphon = package.optional("antiphon")


@package.need("antiphon")
class Arguments(SystemTest):
    def setUp(self):
        self.model, self.graph, self.store = self.root / "net/model.safetensors", self.root / "graph", self.root / "store"
        self.file = self.root / "corpus/s0-u00.wav"

    def recognizer(self, **settings):
        return antiphon.Recognizer(self.model, self.graph, threads=1, **settings)

    def refused(self, kind, text, call):
        with self.assertRaisesRegex(kind, text) as caught:
            call()
        self.assertNotRegex(str(caught.exception), "incompatible function arguments|expected (\\w+), not \\1|iterable")

    def test_whole_numbers_have_ranges(self):
        recognizer, store = self.recognizer(), antiphon.FrameStore(self.store)
        silence = np.zeros(800, np.float32)
        for name, call in (("rate", lambda n: recognizer.recognize(silence, n)),
                           ("rate", recognizer.stream),
                           ("rate", lambda n: antiphon.FrontEnd.standard("mfcc", n)),
                           ("nbest", lambda n: recognizer.recognize(silence, 8000, nbest=n)),
                           ("nbest", lambda n: self.recognizer(nbest=n)),
                           ("channel", lambda n: recognizer.recognize(self.file, channel=n)),
                           ("size", store.minibatches),
                           ("seed", lambda n: store.minibatches(8, seed=-n)),
                           ("epoch", lambda n: store.minibatches(8, epoch=2**23 * n)),
                           ("seed", lambda n: antiphon.Compressor(self.model, "svd", seed=-1)),
                           ("threads", lambda n: antiphon.train(self.store, self.root / "none", threads=-1)),
                           ("threads", lambda n: antiphon.train_g2p(self.root / "lexicon.txt", self.root / "x", n))):
            self.refused(antiphon.UsageError, f"{name}: expected a whole number from", lambda: call(2**40))
        self.refused(antiphon.UsageError, "beam: expected a number that fits", lambda: self.recognizer(beam=10**400))
        self.refused(antiphon.InputError, "finite numbers of 32 bits, found 1e\\+300 at .2.",
                     lambda: recognizer.recognize(np.array([0, 0, 1e300]), 8000))
        self.refused(antiphon.UsageError, "utterances: expected at least one",
                     lambda: store.minibatches(8, utterances=[]))
        self.refused(antiphon.UsageError, "cache_limit_gb.*NaN",
                     lambda: antiphon.FrameStore(self.store, cache_limit_gb=float("nan")))

    def test_types_are_named(self):
        refused = lambda text, call: self.refused(TypeError, text, call)  # noqa: E731
        for settings, text in (({"hotwords": {"a": None}}, "hotwords: 'a': expected a number"),
                               ({"hotwords": {3: 4}}, "hotwords: expected str, not int"),
                               ({"hotwords": ["AB"]}, "hotwords: expected pairs"),
                               ({"hotwords": "AB"}, "hotwords: expected a list or a dict, not str"),
                               ({"add_words": 3.0}, "add_words: expected a list or a dict, not float"),
                               ({"add_words": [3]}, "add_words: expected words"),
                               ({"word_list": "A"}, "word_list: expected a list, not str"),
                               ({"beam": "3"}, "beam: expected a number, not str"),
                               ({"beam": np.zeros(2)}, "beam: expected a number, not ndarray"),
                               ({"hotwords": {"a": np.zeros(2)}}, "hotwords: 'a': expected a number, not ndarray"),
                               ({"max_active": np.zeros(2)}, "max_active: expected a whole number, not ndarray"),
                               ({"weights": np.zeros(2)}, "weights: expected a path"),
                               ({"nbest": 2.5}, "nbest: expected a whole number, not float"),
                               ({"confidences": 1}, "confidences: expected bool, not int"),
                               ({"precision": 3}, "precision: expected str, not int")):
            refused(text, lambda: self.recognizer(**settings))
        refused("log_to: expected str", lambda: antiphon.train(self.store, self.root / "none", log_to=None))
        refused("config: expected str", lambda: antiphon.train(self.store, self.root / "none", config=None))
        refused("method: expected str", lambda: antiphon.Compressor(self.model, 3))
        refused("config: expected str", lambda: antiphon.Adapter(self.model, store=self.store, config=None))
        refused("utterances: expected places in the store, not int",
                lambda: antiphon.FrameStore(self.store).minibatches(8, utterances=3))
        refused("entries: expected pairs of a key and its array, not int",
                lambda: antiphon.write_table(self.root / "x.ark", 3))
        refused("entries: expected pairs of a key and its array, found 'ab'",
                lambda: antiphon.write_table(self.root / "x.ark", ["ab"]))
        self.refused(antiphon.InputError, "'a': ", lambda: antiphon.write_table(self.root / "x.ark",
                                                                                 {"a": [[1], [1, 2]]}))
        refused("partial: expected bool, not str", lambda: self.recognizer().stream(8000, partial="no"))
        refused("kind: expected str", lambda: antiphon.FrontEnd.standard(3))
        refused("utt_id: expected str", lambda: antiphon.FrontEnd.standard("mfcc")(np.zeros(800), 16000, 3))
        refused("cache_limit_gb: expected a number", lambda: antiphon.FrameStore(self.store, cache_limit_gb="x"))
        aligner = antiphon.Aligner(self.model, self.root / "lexicon.txt")
        for audio in (3, None, object()):
            refused("audio: expected the path of a file, its contents as bytes, or an array of samples with their rate",
                    lambda: aligner.align(audio, "A"))
        refused("rate: samples need", lambda: aligner.align([0.0] * 800, "A"))
        self.refused(antiphon.InputError, "audio", lambda: aligner.align(b"no sound at all", "A"))
        self.refused(antiphon.UsageError, "rate: a file says", lambda: aligner.align(b"RIFF", "A", 8000))
        self.refused(antiphon.InputError, "surrogate",
                     lambda: antiphon.Aligner(self.model, self.root / "lexicon.txt").align(self.file, "A \ud800"))

    def test_settings_files_that_are_not_there(self):
        for name in ("weights", "vad", "rescore_arpa", "graph_arpa", "g2p", "lm"):
            with self.assertRaisesRegex(FileNotFoundError, name):
                self.recognizer(**{name: self.root / "nowhere"})

    def test_errors_of_files_are_pythons_too(self):
        (self.root / "lost.scp").write_text(f"a {self.root}/it's gone.ark:5\n")
        with self.assertRaises(FileNotFoundError) as caught:
            list(antiphon.read_table(self.root / "lost.scp"))
        error = pickle.loads(pickle.dumps(caught.exception))
        for found in (caught.exception, error):
            self.assertIsInstance(found, antiphon.FileError)
            self.assertEqual((found.errno, found.filename), (errno.ENOENT, f"{self.root}/it's gone.ark"))
            self.assertRegex(str(found), "^cannot open '.*it's gone.ark': No such file")
        made = antiphon._errors.made
        denied = made("io", "saving:\n  cannot write '/x y': Permission denied; no permission here: check the rights")
        self.assertIsInstance(denied, PermissionError)
        self.assertEqual((denied.errno, denied.strerror, denied.filename), (errno.EACCES, "Permission denied", "/x y"))
        moved = made("io", "filesystem error: cannot rename: No space left on device [/a] [/b]")
        self.assertEqual((type(moved), moved.errno, moved.filename), (antiphon.FileError, errno.ENOSPC, "/a"))
        unknown = made("io", "cannot wait for 'x': it is odd")
        self.assertEqual((type(unknown), unknown.errno, unknown.filename), (antiphon.FileError, None, None))
        self.assertEqual(str(unknown), "cannot wait for 'x': it is odd")

    def test_files_may_have_any_name(self):
        path = os.fsencode(self.root) + b"/\xff.wav"
        with open(path, "wb") as copy:
            copy.write(self.file.read_bytes())
        self.assertEqual(self.recognizer().recognize(os.fsdecode(path)).text,
                         self.recognizer().recognize(self.file).text)

    def test_keys_in_another_encoding_come_and_go(self):
        table = self.root / "latin.ark"
        table.write_bytes(b"M\xfcller  [\n 1 2 3 ]\n")
        (key, value), = antiphon.read_table(table)
        self.assertEqual(os.fsencode(key), b"M\xfcller")
        antiphon.write_table(self.root / "again.ark", [(key, value)])
        self.assertTrue((self.root / "again.ark").read_bytes().startswith(b"M\xfcller "))
        table.write_bytes(b"\xfc\xfcu1 [ 1 2 3\n 1 x 3 ]\n")
        self.refused(antiphon.InputError, "latin.ark.*\ufffdu1", lambda: list(antiphon.read_table(table)))

    def test_settings_go_before_options(self):
        front_end = antiphon.FrontEnd(antiphon.Model(self.model).features, dither=0.25)
        self.assertIn("dither = 0.25", front_end.options)
        self.assertIn("use-energy = false", antiphon.FrontEnd(kind="mfcc", use_energy=np.bool_(False)).options)
        self.refused(antiphon.UsageError, "options: expected TOML", lambda: antiphon.FrontEnd("kind = "))

    def test_a_training_says_what_is_no_network_and_no_function(self):
        for given in ({"network": 3}, {"network": "affine"}, {"on_metrics": 3}):
            self.refused(TypeError, f"{next(iter(given))}: expected", lambda: antiphon.train(self.store, "o", **given))

    def test_tables_are_written_where_they_are_read(self):
        place = self.root / "named.ark"
        self.assertEqual(antiphon.write_table(f"ark:{place}", [("a", [1.0])]), 1)
        self.assertEqual([key for key, _ in antiphon.read_table(f"ark:{place}")], ["a"])
        for name in (f"ark,t:{place}", f"scp:{place}", f"ark,scp:{place},x", f"{place}.scp"):
            self.refused(antiphon.UsageError, "path of an archive", lambda: antiphon.write_table(name, [("a", [1.0])]))

    def test_no_memory_is_an_error_of_ours(self):
        model = antiphon.Model(self.model)
        frames = np.zeros((300000, model.feature_dim), np.float32)
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 30 * 2**20, before[1]))
        try:
            with self.assertRaises(antiphon.OutOfMemoryError) as caught:
                model.score(frames)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
        self.assertIsInstance(caught.exception, MemoryError)

    def test_results_can_be_pickled(self):
        found = antiphon.Aligner(self.model, self.root / "lexicon.txt").align(self.file, "A B A")
        again = pickle.loads(pickle.dumps(found))
        self.assertEqual((again.words, again.textgrid(), again.ctm("u"), again.log_likelihood, again.duration),
                         (found.words, found.textgrid(), found.ctm("u"), found.log_likelihood, found.duration))
        recognized = self.recognizer().recognize(self.file)
        self.assertEqual(pickle.loads(pickle.dumps(recognized)), recognized)


if __name__ == "__main__":
    package.main()
