"""Model: scores, and the way to PyTorch and back."""

import json
import pickle
import unittest

import numpy as np
import package
from small_system import must, run
from system import SystemTest

antiphon = package.optional("antiphon")


@package.need("antiphon")
class Model(SystemTest):
    def features(self):
        return antiphon.FrameStore(self.root / "store").features(0)

    def test_scores_are_posteriors_over_priors(self):
        model = antiphon.Model(self.root / "net/model.safetensors")
        scores = model.score(self.features())
        self.assertEqual(scores.shape, (len(self.features()), model.num_outputs))
        # Computed once more, layer by layer.
        values, frames = model.tensors(), self.features()
        places = np.arange(len(frames))
        spliced = np.concatenate([frames[np.clip(places + k, 0, len(frames) - 1)]
                                  for k in range(-model.left_context, model.right_context + 1)], axis=1)
        names = [name.split(".")[0] for name in values if name.endswith("weight")]
        norm = next(name.split(".")[0] for name in values if name.endswith("scale"))
        x = (spliced + values[norm + ".offset"]) * values[norm + ".scale"]
        for i, name in enumerate(names):
            x = x @ values[name + ".weight"].T + values[name + ".bias"]
            x = np.maximum(x, 0) if i + 1 < len(names) else x
        x -= np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)) + x.max(1, keepdims=True)
        counts = antiphon.FrameStore(self.root / "store").count_labels()
        seen = counts > 0
        constant = scores[:, seen] - (x[:, seen] - np.log(counts[seen] / counts.sum()))
        self.assertLess(np.abs(constant).max(), 0.5)  # priors are of the training part alone
        self.assertLess(np.ptp(constant, axis=0).max(), 1e-3)

    def test_it_says_what_it_is(self):
        model = antiphon.Model(self.root / "net/model.safetensors")
        self.assertEqual(model.num_parameters, sum(v.size for n, v in model.tensors().items()
                                                   if not n.endswith(("offset", "scale"))))
        self.assertIn("relu", model.network)
        self.assertEqual(antiphon.FrontEnd(model.features).dim, model.feature_dim)
        self.assertRegex(repr(model), "model.safetensors.*40 values per frame")
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.score(self.features()), model.score(self.features()))
        self.assertEqual(antiphon.Model(self.root / "net").num_parameters, model.num_parameters)  # of its run folder

    def test_mistakes_are_named(self):
        model = antiphon.Model(self.root / "net/model.safetensors")
        frames = self.features()
        for call, kind, text in ((lambda: antiphon.Model("nowhere"), FileNotFoundError, "nowhere"),
                                 (lambda: antiphon.Model(self.root / "lexicon.txt"), antiphon.Error, "lexicon.txt"),
                                 (lambda: model.score(frames[:, :3]), ValueError, r"expected \[frames, 40\]"),
                                 (lambda: model.score(frames * np.nan), ValueError, "finite"),
                                 (lambda: model.score(frames.astype(int)), TypeError, "int64")):
            with self.assertRaisesRegex(kind, text):
                call()
        self.assertEqual(model.score(frames[:0]).shape, (0, model.num_outputs))


@package.need("antiphon", "torch")
class Torch(SystemTest):
    def check_same(self, model, network):
        import torch

        frames = antiphon.FrameStore(self.root / "store").features(1)
        with torch.no_grad():
            found = network(torch.from_numpy(frames)).numpy()
        expected = model.score(frames)
        self.assertEqual(found.shape, expected.shape)
        np.testing.assert_allclose(found, expected, atol=1e-4)

    def train(self, name, layers, *options):
        (self.root / f"{name}.toml").write_text(layers)
        must("train", "--config", self.root / f"{name}.toml", "--store", self.root / "store", "--hmm",
             self.root / "align/model.safetensors", "--front-end", self.root / "feats/front_end.toml", "--out",
             self.root / name, "--set", "data.minibatch=64", "--set", "schedule.epochs=1", *options)
        return antiphon.Model(self.root / name / "model.safetensors")

    def test_there_and_back_outputs_are_the_same(self):
        layers = "[[network.layer]]\ntype = '{}'\n"
        hidden = "[[network.layer]]\ntype = 'affine'\ndim = 12\n"
        deep = "".join([hidden, layers.format("relu"), layers.format("batch-norm") + "affine = true\n", hidden,
                        layers.format("sigmoid"), layers.format("renorm"), hidden.replace("affine", "linear"),
                        layers.format("tanh"), layers.format("dropout"), layers.format("affine")])
        sequence = ["--set", "data.chunk-frames=16", "--set", "data.left-context=0", "--set", "data.right-context=0"]
        tdnn = "".join(["[[network.layer]]\ntype = 'tdnn'\ndim = 12\noffsets = [-2, 0, 1]\n", layers.format("relu"),
                        "[[network.layer]]\ntype = 'tdnn'\ndim = 12\noffsets = [-3, 0, 3]\n", layers.format("relu"),
                        layers.format("affine")])
        for name, toml, options in (("deep", deep, []), ("tdnn", tdnn, sequence)):
            with self.subTest(name):
                model = self.train(name, toml, *options)
                network = model.to_torch()
                self.check_same(model, network)
                back = antiphon.Model.from_torch(network, self.root / f"{name}_back.safetensors", like=model)
                np.testing.assert_allclose(back.score(self.frames()), model.score(self.frames()), atol=1e-4)

    def frames(self):
        return antiphon.FrameStore(self.root / "store").features(2)

    def test_what_torch_trains_decodes(self):
        import torch

        torch.manual_seed(1)
        store = antiphon.FrameStore(self.root / "store")
        network = torch.nn.Sequential(torch.nn.Linear(11 * store.feature_dim, 32), torch.nn.ReLU(),
                                      torch.nn.Linear(32, store.num_labels))
        with torch.no_grad():
            network[0].weight.mul_(0.1)
        optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
        for epoch in range(4):
            for batch in store.minibatches(64, epoch=epoch):
                loss = torch.nn.functional.cross_entropy(network(torch.from_dlpack(batch.features)),
                                                         torch.from_dlpack(batch.labels).long())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        file = self.root / "torch.safetensors"
        model = antiphon.Model.from_torch(network, file, store=store, hmm=self.root / "net/model.safetensors")
        self.check_same(model, model.to_torch())
        must("decode", "--model", file, "--graph", self.root / "graph", self.root / "corpus", self.root / "decoded")
        score = json.loads(run("score", self.root / "corpus/text", self.root / "decoded/text", "--json").stdout)
        self.assertLess(score["error_rate"], 0.2)
        # The labels' states may be those of Gaussians on other features: the store says what its own are.
        by_gaussians = antiphon.Model.from_torch(network, self.root / "by_gaussians.safetensors", store=store,
                                                 hmm=self.root / "align/model.safetensors")
        self.assertEqual(by_gaussians.features, store.front_end)
        recording = next((self.root / "corpus").rglob("*.wav"))
        expected = antiphon.Recognizer(file, self.root / "graph").recognize(recording)
        self.assertEqual(antiphon.Recognizer(by_gaussians.file, self.root / "graph").recognize(recording), expected)
        must("compress", file, "--method", "svd", "--store", self.root / "store", "--out", self.root / "small")
        adapter = antiphon.Adapter(file, store=self.root / "store", kld={"rho": [0.5]}, min_gain=0,
                                   train={"schedule": {"epochs": 1}, "data": {"minibatch": 64}})
        adapted = adapter.run(self.root / "adapted")
        self.assertTrue(adapted.accepted, adapted.verdict)
        self.assertFalse(np.array_equal(antiphon.Model(adapted.model).score(self.frames()), model.score(self.frames())))
        self.assertEqual(antiphon.Recognizer(adapted.model, self.root / "graph").recognize(recording).text,
                         expected.text)

    def test_what_only_looks_like_a_known_layer_is_refused(self):
        import torch
        from torch import nn

        class Residual(nn.Sequential):
            def forward(self, x):
                return x + super().forward(x)

        class Scaled(nn.Linear):
            def forward(self, x):
                return 2 * super().forward(x)

        store = antiphon.FrameStore(self.root / "store")
        dim, outputs = store.feature_dim, store.num_labels
        given = {"store": store, "left_context": 0, "right_context": 0}
        hooked, patched, stale = (nn.Linear(dim, outputs) for _ in range(3))
        hooked.register_forward_hook(lambda module, inputs, output: 2 * output)
        patched.forward = torch.tanh
        stale.register_forward_pre_hook(lambda module, inputs: None)  # as weight_norm once computed weights
        for module, kind in ((nn.Sequential(Residual(nn.Linear(dim, dim)), nn.Linear(dim, outputs)), TypeError),
                             (Scaled(dim, outputs), TypeError), (hooked, antiphon.InputError),
                             (patched, antiphon.InputError), (stale, antiphon.InputError)):
            with self.assertRaises(kind):
                antiphon.Model.from_torch(module, self.root / "looks", **given)
            self.assertFalse((self.root / "looks").exists())

        class Tripled(nn.Module):
            def forward(self, weight):
                return 3 * weight

        tripled = nn.Linear(dim, outputs)
        nn.utils.parametrize.register_parametrization(tripled, "weight", Tripled())
        written = antiphon.Model.from_torch(tripled, self.root / "tripled.safetensors", **given)
        np.testing.assert_allclose(written.tensors()["affine1.weight"], tripled.weight.detach().numpy(), rtol=1e-6)

    def test_tensors_that_numpy_cannot_see_are_refused(self):
        import torch

        model = antiphon.Model(self.root / "net/model.safetensors")
        for tensor in (torch.zeros(3, model.feature_dim, requires_grad=True),
                       torch.zeros(3, model.feature_dim, dtype=torch.bfloat16)):
            with self.assertRaisesRegex(TypeError, "features: expected"):
                model.score(tensor)

    def test_what_stands_in_it_twice_is_written_twice(self):
        from torch import nn

        store = antiphon.FrameStore(self.root / "store")
        shared, again = nn.ReLU(), nn.Linear(store.feature_dim, store.feature_dim)
        network = nn.Sequential(again, shared, again, shared, nn.Linear(store.feature_dim, store.num_labels))
        model = antiphon.Model.from_torch(network, self.root / "twice.safetensors", store=store, left_context=0,
                                          right_context=0)
        self.assertEqual(sum(name.endswith(".weight") for name in model.tensors()), 3)
        self.check_same(model, model.to_torch())

    def test_says_what_store_and_hmm_should_be(self):
        from torch import nn

        store = antiphon.FrameStore(self.root / "store")
        network, file = nn.Linear(11 * store.feature_dim, store.num_labels), self.root / "refused.safetensors"
        must("store", "--features", self.root / "feats/feats.scp", "--out", self.root / "unlabelled", "--num-pdfs",
             store.num_labels)
        for given, said in (({"store": self.root / "unlabelled"}, "labels"),
                            ({"store": store, "hmm": self.root / "lexicon.txt"}, "lexicon.txt")):
            with self.assertRaisesRegex(antiphon.InputError, said):
                antiphon.Model.from_torch(network, file, **given)
            self.assertFalse(file.exists())

    def test_a_model_that_scores_otherwise_is_refused(self):
        from antiphon import _core, _torch

        model, other = (antiphon.Model(self.root / name / "model.safetensors") for name in ("net", "other"))
        file, network = _core.ModelFile.read(model.file), model.to_torch()
        _torch.require_same(network, file, _core.Model(model.file))
        with self.assertRaisesRegex(antiphon.InputError, "other scores"):
            _torch.require_same(network, file, _core.Model(other.file))

    def test_mistakes_are_named(self):
        import torch

        lstm = torch.nn.Sequential(torch.nn.LSTM(40, 3))
        for call, kind, text in (
                (lambda: antiphon.Model.from_torch(lstm, "x", feature_dim=40), TypeError, "LSTM"),
                (lambda: antiphon.Model.from_torch(torch.nn.Linear(3, 3), "x"), antiphon.InputError, "feature_dim"),
                (lambda: antiphon.Model.from_torch(torch.nn.Linear(3, 3), self.root / "x", feature_dim=40),
                 antiphon.InputError, "linear1|affine1"),
                (lambda: antiphon.Model.from_torch(lstm, "x", feature_dim=40, description=3), TypeError,
                 "description: expected str"),
                (lambda: antiphon.Model.from_torch("net", "x", feature_dim=40), TypeError, "Module")):
            with self.assertRaisesRegex(kind, text):
                call()
        self.assertFalse((self.root / "x").exists())


if __name__ == "__main__":
    package.main()
