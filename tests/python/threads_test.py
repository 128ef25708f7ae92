"""Eight threads on one object of each kind say what one thread says. scripts/sanitize --threads runs this under the
thread sanitizer, where it must be quiet, too."""

import concurrent.futures
import random
import unittest

import numpy as np
import package
from small_system import RATE, speech
from system import SystemTest

antiphon = package.optional("antiphon")
THREADS = 8


@package.need("antiphon")
class Threads(SystemTest):
    def setUp(self):
        self.files = sorted((self.root / "corpus").glob("*.wav"))
        self.network, self.graph = self.root / "net/model.safetensors", self.root / "graph"

    def check(self, work, items):
        """`work` gives the same of each item in eight threads at once, several times over, as in one."""
        expected = [work(item) for item in items]
        self.assertTrue(any(len(value) if isinstance(value, np.ndarray) else value for value in expected))
        with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
            for value, right in zip(threads.map(work, items * 3), expected * 3):
                if isinstance(right, np.ndarray):
                    np.testing.assert_array_equal(value, right)
                else:
                    self.assertEqual(value, right)

    def test_recognise(self):
        recognizer = antiphon.Recognizer(self.network, self.graph, nbest=2, hotwords={"A": 1.0}, threads=1)
        self.check(recognizer.recognize, self.files)

    def test_recognise_in_8_bits_with_words_that_are_added(self):
        recognizer = antiphon.Recognizer(self.network, self.graph, precision="int8", word_list=["A", "B"], threads=1)
        self.check(recognizer.recognize, self.files)

    def test_recognise_by_gaussians(self):
        recognizer = antiphon.Recognizer(self.root / "align/model.safetensors", self.graph, threads=1)
        self.check(recognizer.recognize, self.files[:8])

    def test_streams(self):
        recognizer = antiphon.Recognizer(self.network, self.graph, threads=1)

        def hear(seed):
            samples = np.array(speech("ABBA", random.Random(seed)), dtype=np.int16)
            with recognizer.stream(RATE) as stream:
                events = [event for piece in np.array_split(samples, 9) for event in stream.accept(piece)]
                return events + stream.end()

        self.check(hear, list(range(THREADS)))

    def test_threads_that_share_a_stream_wait_for_each_other(self):
        recognizer = antiphon.Recognizer(self.network, self.graph, threads=1)
        pieces = [np.array(speech("AB", random.Random(1)), dtype=np.int16)] * (2 * THREADS)  # in whatever order

        def hear(accept_all):
            with recognizer.stream(RATE, partial=False) as stream:
                events = [event for events in accept_all(stream.accept, pieces) for event in events]
                return sorted((event.start, event.text) for event in events + stream.end())

        with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
            self.assertEqual(hear(threads.map), hear(map))

    def test_threads_that_share_an_iterator_divide_it(self):
        entries = {f"utt{number}": np.full((20, 5), number, np.float32) for number in range(2000)}
        antiphon.write_table(self.root / "shared.ark", entries.items())
        store = antiphon.FrameStore(self.root / "store")
        for walk, expected in ((antiphon.read_table(self.root / "shared.ark"), sorted(entries)),
                               (store.minibatches(8), list(range(store.num_frames)))):
            with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
                parts = [part for parts in threads.map(lambda _: list(walk), range(THREADS)) for part in parts]
            for part in parts:
                if isinstance(part[0], str):
                    np.testing.assert_array_equal(part[1], entries[part[0]])
            found = [part[0] for part in parts] if isinstance(parts[0][0], str) else \
                np.concatenate([part.frame_ids for part in parts]).tolist()
            self.assertEqual(sorted(found), expected)

    def test_align(self):
        aligner = antiphon.Aligner(self.network, self.root / "lexicon.txt")
        text = dict(line.split(maxsplit=1) for line in (self.root / "corpus/text").read_text().splitlines())
        self.check(lambda file: aligner.align(file, text[file.stem]).textgrid(), self.files)

    def test_features_and_scores(self):
        front_end, model = antiphon.FrontEnd(kind="mfcc", sample_rate=RATE), antiphon.Model(self.network)
        samples = [np.array(speech("AB", random.Random(seed)), dtype=np.int16) for seed in range(THREADS)]
        self.check(lambda given: front_end(given, RATE), samples)
        store = antiphon.FrameStore(self.root / "store")
        self.check(lambda number: model.score(store.features(number)), list(range(THREADS)))

    def test_recognisers_are_made_and_go_at_once(self):
        self.check(lambda file: antiphon.Recognizer(self.network, self.graph, threads=1).recognize(file),
                   self.files[:THREADS])


if __name__ == "__main__":
    package.main()
