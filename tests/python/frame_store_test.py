"""FrameStore and its minibatches, against the tables that the store was made of."""

import multiprocessing
import pickle
import unittest

import numpy as np
import package
from system import SystemTest

antiphon = package.optional("antiphon")


@package.need("antiphon")
class FrameStore(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.store = antiphon.FrameStore(cls.root / "store")
        cls.labels = dict(antiphon.read_table(cls.root / "align/pdf.scp"))

    def test_utterances_are_those_of_the_tables(self):
        store = self.store
        sizes = {key: len(value) for key, value in antiphon.read_table(self.root / "feats/feats.scp")}
        self.assertEqual({u.id: u.num_frames for u in store.utterances}, {u: sizes[u] for u in self.labels})
        self.assertEqual({u.speaker for u in store.utterances}, {"s0", "s1", "s2", "s3"})
        self.assertEqual(store.num_frames, sum(u.num_frames for u in store.utterances))
        self.assertTrue(store.labelled)
        for place in (0, len(store.utterances) - 1):
            utterance = store.utterances[place]
            np.testing.assert_array_equal(store.labels(place), self.labels[utterance.id])
            self.assertEqual(store.features(place).shape, (utterance.num_frames, store.feature_dim))
        expected = np.bincount(np.concatenate(list(self.labels.values())), minlength=store.num_labels)
        np.testing.assert_array_equal(store.count_labels(), expected)

    def test_features_are_normalised_ones_of_the_table(self):
        statistics = dict(antiphon.read_table(self.root / "feats/cmvn.scp"))
        raw = dict(antiphon.read_table(self.root / "feats/feats.scp"))
        for place, utterance in enumerate(self.store.utterances[:3]):
            sums = statistics[utterance.speaker]
            expected = raw[utterance.id] - sums[0, :-1] / sums[0, -1]
            step = np.ptp(expected, axis=0) / 255
            self.assertTrue((np.abs(self.store.features(place) - expected) <= 0.51 * step + 1e-3).all())

    def test_an_epoch_has_every_frame_once_with_its_context(self):
        store = self.store
        starts = np.cumsum([0] + [u.num_frames for u in store.utterances])
        features = [store.features(i) for i in range(len(store.utterances))]
        batches = store.minibatches(50, left_context=2, right_context=1, epoch=3)
        self.assertEqual(len(batches), -(-store.num_frames // 50))
        seen = []
        for batch in batches:
            self.assertEqual(batch.features.shape, (len(batch.labels), 4 * store.feature_dim))
            for row, frame in enumerate(batch.frame_ids):
                place = int(np.searchsorted(starts, frame, side="right")) - 1
                inside = int(frame - starts[place])
                last = len(features[place]) - 1
                window = [features[place][np.clip(inside + k, 0, last)] for k in range(-2, 2)]
                np.testing.assert_array_equal(batch.features[row], np.concatenate(window))
                self.assertEqual(batch.labels[row], self.labels[store.utterances[place].id][inside])
            seen.extend(batch.frame_ids.tolist())
        self.assertEqual(sorted(seen), list(range(store.num_frames)))

    def order(self, **options):
        return [frame for batch in self.store.minibatches(64, **options) for frame in batch.frame_ids.tolist()]

    def test_epoch_and_seed_decide_the_order(self):
        self.assertEqual(self.order(epoch=1, prefetch=0), self.order(epoch=1, prefetch=7))
        self.assertNotEqual(self.order(epoch=1), self.order(epoch=2))
        self.assertNotEqual(self.order(seed=1), self.order(seed=2))
        self.assertEqual(self.order(shuffle=False), list(range(self.store.num_frames)))
        some = self.order(utterances=[0, 2])
        self.assertEqual(len(some), sum(self.store.utterances[i].num_frames for i in (0, 2)))

    def test_arrays_are_kept_without_copies(self):
        kept = list(self.store.minibatches(32))
        again = list(self.store.minibatches(32))
        for batch, other in zip(kept, again):
            np.testing.assert_array_equal(batch.features, other.features)
            shared = np.from_dlpack(batch.features)
            self.assertEqual(shared.ctypes.data, batch.features.ctypes.data)
        kept[0].features[:] = 0  # theirs alone
        self.assertTrue(again[0].features.any())

    def test_an_epoch_may_be_left(self):
        for _ in range(20):
            next(self.store.minibatches(16, prefetch=8))

    @package.need("torch")
    def test_torch_takes_them_without_a_copy(self):
        import torch

        batch = next(self.store.minibatches(16))
        self.assertEqual(torch.from_dlpack(batch.features).data_ptr(), batch.features.ctypes.data)

    def test_spawned_processes_get_it(self):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            np.testing.assert_array_equal(pool.apply(antiphon.FrameStore.features, (self.store, 1)),
                                          self.store.features(1))

    def test_it_can_be_pickled(self):
        again = pickle.loads(pickle.dumps(self.store))
        self.assertEqual(again.utterances, self.store.utterances)
        self.assertRegex(repr(again), f"store.*{len(again.utterances)} utterances, {again.num_frames} frames")

    def test_mistakes_are_named(self):
        (self.root / "nothing").mkdir()
        for call, kind, text in ((lambda: antiphon.FrameStore("nowhere"), FileNotFoundError, "nowhere"),
                                 (lambda: antiphon.FrameStore(self.root / "nothing"), antiphon.Error, "nothing"),
                                 (lambda: self.store.features(999), IndexError, "999"),
                                 (lambda: self.store.features("x"), TypeError, "whole number"),
                                 (lambda: self.store.minibatches(0), antiphon.UsageError, "minibatch"),
                                 (lambda: self.store.minibatches(8, epoch=-1), antiphon.InputError, "epoch"),
                                 (lambda: self.store.minibatches(8, left_context=-1), antiphon.UsageError, "context"),
                                 (lambda: self.store.minibatches(8, utterances=[]), ValueError, "at least one"),
                                 (lambda: self.store.minibatches(8, utterances=[-1]), IndexError, "-1")):
            with self.assertRaisesRegex(kind, text):
                call()


if __name__ == "__main__":
    package.main()
