"""Every type of layer scores in PyTorch as it does here, and comes back: networks with values drawn at random, those of
the recipes among them."""

import pathlib
import re
import tempfile
import unittest
import unittest.mock

import numpy as np
import package

antiphon = package.optional("antiphon")
if antiphon is not None:
    from antiphon import _core
    from antiphon._toml import toml_table, toml_value

LAYERS = package.SOURCES / "src/nn/layers"
RECIPES = package.SOURCES / "recipes"
FRAMES = (1, 2, 23, 40)


def lists(*layers):
    """Layers as tables, each given as "TYPE key = value, …"."""
    tables = []
    for layer in layers:
        kind, _, options = layer.partition(" ")
        tables.append(toml_table(f"table = {{type = '{kind}'{', ' if options else ''}{options}}}")["table"])
    return tables


# Each: the layers, the values per frame, and what else the model says.
NETWORKS = {
    "products": (lambda: lists(
        "normalize", "frame-affine dim = 6", "fixed-affine dim = 16", "affine dim = 16", "lhuc", "relu",
        "linear dim = 12", "sparse-affine dim = 16, block-rows = 4, block-cols = 2", "sigmoid",
        "circulant-affine dim = 10, block = 4", "batch-norm affine = true", "binary-affine dim = 12", "tanh",
        "p-norm dim = 6", "renorm target-rms = 1.5",
        "dropout proportion = 0.1", "gradient-reversal", "affine dim = 9"), 6, {"left_context": 1, "right_context": 1}),
    "few bits": (lambda: lists(
        "quantized-affine dim = 12", "relu", "quantized-affine dim = 16, weight-bits = 4, input-bits = 0", "tanh",
        "sparse-affine dim = 12, weight-bits = 8, input-bits = 8", "batch-norm",
        "binary-affine dim = 12, binary-input = true", "affine dim = 9"), 6, {"left_context": 1}),
    "norms": (lambda: lists(
        "inverse-cosine cepstra = 8", "batch-norm columns = 8, target-rms = 0.5",
        "spec-mask feature-dim = 8, per-chunk = true, max-bands = 2", "batch-norm columns = 8, affine = true",
        "affine dim = 12", "p-norm dim = 4, p = 3.5", "batch-norm target-rms = 2.0, affine = true", "softmax",
        "dropout proportion = 0.1, per-chunk = true, continuous = true",
        "side-task task = 'speaker', classes = 3, hidden-dim = 4", "affine dim = 9", "log-softmax"), 11, {}),
    "all cepstra": (lambda: lists("inverse-cosine lifter = 0.0", "p-norm dim = 4, p = 1.0", "affine dim = 9"), 8, {}),
    "strides": (lambda: lists(
        "tdnn dim = 12, offsets = [-1, 0, 1]", "relu", "tdnn-f dim = 12, bottleneck = 4",
        "tdnn-f dim = 12, bottleneck = 4, stride = 3, dropout = 0.1",
        "tdnn-f dim = 12, bottleneck = 4, time-stride = 0", "tdnn-f dim = 16, bottleneck = 4, bypass = 0.0",
        "splice offsets = [1, 2]", "prefinal dim = 12, bottleneck = 6",
        "affine dim = 9"), 7, {"frame_subsampling": 3}),
    "copied strides": (lambda: lists(
        "splice offsets = [-2, 0, 3], stride = 2", "affine dim = 8",
        "residual scale = 0.5, layers = [{type = 'tdnn', dim = 8, offsets = [-1, 1], stride = 2}, {type = 'tanh'}]",
        "affine dim = 9"), 7, {"left_context": 1, "right_context": 2}),
    "recurrent": (lambda: lists(
        "lstm dim = 8, projection = 5", "tdnn dim = 8, offsets = [-1, 0, 2]", "relu",
        "lstm dim = 6, share-gates = true", "gru dim = 7", "lstm dim = 8, peepholes = false",
        "residual layers = [{type = 'lstm', dim = 8, projection = 8}]",
        "lstm dim = 5, share-gates = true, peepholes = false, projection = 4", "affine dim = 9"), 7, {}),
    "bidirectional": (lambda: lists(
        "bidirectional right = 3, layers = [{type = 'gru', dim = 6}]",
        "bidirectional right = 2, layers = [{type = 'affine', dim = 8}, {type = 'relu'}, {type = 'lstm', dim = 6}, "
        "{type = 'bidirectional', right = 0, layers = [{type = 'gru', dim = 4}]}]", "affine dim = 9"), 7, {}),
    "ensemble": (lambda: lists(
        "tdnn dim = 8, offsets = [-1, 0, 1]",
        "ensemble members = [{layers = [{type = 'splice', offsets = [-2, 0], stride = 2}, {type = 'affine', "
        "dim = 9}]}, {layers = [{type = 'tdnn', dim = 6, offsets = [0, 4], stride = 2}, {type = 'tanh'}, "
        "{type = 'gru', dim = 9}], weight = 2.5}]", "affine dim = 9"), 7, {"frame_subsampling": 2}),
    "convolution": (lambda: lists(
        "convolution channels = 3, channels-first = true, filters = 4, window = 4, offsets = [-2, 0, 1]", "relu",
        "pooling channels = 4, window = 3, stride = 2", "convolution channels = 4, filters = 6, window = 5, stride = 2",
        "pooling channels = 6, window = 2, stride = 3, function = 'average'",
        "convolution channels = 6, filters = 5, window = 2, pad = false", "pooling channels = 5, window = 2",
        "affine dim = 9"), 63, {}),
    "several frames at once": (lambda: lists("affine dim = 10", "relu", "affine dim = 27"), 7, {
        "left_context": 3, "right_context": 2, "frames_per_forward": 3, "first_frame_offset": -1}),
}

# Of the recipes' networks, which are large, and what they leave to settings.
SMALL = {"dim": 24, "bottleneck": 8, "projection": 12, "times": 2, "dropout": 0.1, "proportion": 0.1, "max-bands": 10,
         "band-probability": 0.5, "max-change": 0.75}


def smaller(layers):
    """The same network with few cells, of numbers alone."""
    tables = []
    for layer in layers:
        if layer["type"] == "side-task":
            continue  # training leaves it out of the model
        table = {key: SMALL[key] if key in ("dim", "bottleneck", "projection", "times") or "${" in str(value) and
                 isinstance(value, str) else value for key, value in layer.items() if key != "when"}
        if "layers" in table:
            table["layers"] = smaller(table["layers"])
        tables.append(table)
    return tables


def networks_in(value, under=""):
    """All lists of layers in a recipe."""
    if isinstance(value, list):
        for inside in value:
            yield from networks_in(inside, under)
    elif isinstance(value, dict):
        for key, inside in value.items():
            if key == "layer" and under in ("", "network"):
                yield inside
            else:
                yield from networks_in(inside, key)


def recipes():
    """(name, layers, values per frame) of every network in a recipe."""
    for file in sorted(RECIPES.rglob("*.toml")):
        for number, layers in enumerate(networks_in(toml_table(file.read_text(encoding="utf-8")))):
            tables = smaller(layers)
            tables[-1]["dim"] = 9
            dims = (40, 140) if layers[0]["type"] == "inverse-cosine" else (40,)
            yield from ((f"{file.name} {number + 1}, {dim} values", tables, dim) for dim in dims)


class RandomModel:
    """A model file with values drawn at random, `log_priors` among them."""

    def __init__(self, path, tables, feature_dim, says):
        self.path = path
        self.settings = {"network": "".join(
            "[[layer]]\n" + "".join(f"{key} = {toml_value(value, key)}\n" for key, value in table.items())
            for table in tables), "feature_dim": feature_dim, **says}
        self.random = np.random.default_rng(7)
        described = self.described()
        self.outputs = described.num_outputs() // described.frames_per_forward
        shapes = self.shapes()
        self.priors = np.log(self.random.dirichlet(np.ones(self.outputs)))
        self.priors[2] = -50  # never seen
        described = self.described()
        for name, shape in shapes.items():
            described.add_tensor(name, self.values(name, shape))
        described.write(str(path))

    def described(self):
        file = _core.ModelFile()
        for key, value in self.settings.items():
            setattr(file, key, value)
        if hasattr(self, "priors"):
            file.log_priors = self.priors.tolist()
        return file

    def shapes(self):
        """Of the tensors that the network has: by what is said of those that are not there or not right."""
        shapes = {}
        while True:
            file = self.described()
            for name, shape in shapes.items():
                file.add_tensor(name, np.zeros(shape, np.float32))
            file.add_tensor("one too many", np.zeros((1, 1 << 20), np.float32))  # as many values as may be asked for
            try:
                file.write(str(self.path))
            except antiphon.Error as error:
                if found := re.search(r"tensor '([^']*)' is .*; the network's is (\d+) x (\d+)", str(error)):
                    shapes[found[1]] = (int(found[2]), int(found[3]))
                elif found := re.search(r"the network needs a tensor '([^']*)'", str(error)):
                    shapes[found[1]] = (1, 1)
                elif "the network has no tensor 'one too many'" in str(error):
                    return shapes
                else:
                    raise

    def values(self, name, shape):
        draw = self.random.standard_normal
        own = name.rsplit(".", 1)[-1]
        if own == "statistics":
            mean, variance = 0.3 * draw(shape[1]), 0.5 + self.random.random(shape[1])
            return 100 * np.stack([np.ones(shape[1]), mean, variance + mean * mean]).astype(np.float32)
        if own == "mask":
            return (self.random.random(shape) < 0.4).astype(np.float32)
        if own in ("input_scale", "input_zero"):
            return np.full(shape, 0.05 if own == "input_scale" else 128, np.float32)
        if own == "scale":
            return (0.5 + self.random.random(shape)).astype(np.float32)
        width = shape[1] if shape[0] > 1 else 10
        return (draw(shape) / np.sqrt(width)).astype(np.float32)


def types_in(layers):
    """Of (type, options), those within others too; a side task's own are none of the network."""
    for kind, options in layers:
        yield kind
        if kind != "side-task":
            for chain in (options, *options.get("members", [])):
                yield from types_in([(inner["type"], inner) for inner in chain.get("layers", [])])


@package.need("antiphon", "torch")
class TorchLayers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.root = pathlib.Path(cls.temporary.name)
        cls.seen = set()

    def check(self, name, tables, feature_dim, says):
        """There, and back again."""
        import torch

        model = antiphon.Model(RandomModel(self.root / "model.safetensors", tables, feature_dim, says).path)
        self.seen |= set(self.kinds(model))
        network = model.to_torch()
        self.assertFalse(network.training)
        frames = np.random.default_rng(1).standard_normal((max(FRAMES), feature_dim), dtype=np.float32)
        for count in (0, *FRAMES):
            expected = model.score(frames[:count])
            with torch.no_grad():
                found = network(torch.from_numpy(frames[:count])).numpy()
            self.assertEqual(found.shape, expected.shape)
            subsampling = says.get("frame_subsampling", 1)
            self.assertEqual(found.shape, ((count + subsampling - 1) // subsampling, model.num_outputs))
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
        self.assertGreater(np.ptp(expected[:, 0]), 1e-3)  # it says something of the frames
        back = antiphon.Model.from_torch(network, self.root / "back.safetensors", like=model)
        np.testing.assert_allclose(back.score(frames), model.score(frames), rtol=0, atol=1e-4)
        nothing = ("dropout", "spec-mask", "side-task", "gradient-reversal")
        self.assertEqual(self.kinds(back), [kind for kind in self.kinds(model) if kind not in nothing])
        # What is trained there is trained here: every weight gets a derivative.
        network(torch.from_numpy(frames))[:, 1].sum().backward()
        self.assertEqual([], [name for name, parameter in network.named_parameters()
                              if parameter.requires_grad and parameter.grad is None])

    @staticmethod
    def kinds(model):
        """Of its layers, those within others too."""
        layers = _core.ModelFile.read(model.file).layers()
        return list(types_in([(kind, toml_table(options)) for _, kind, _, _, options in layers]))

    def test_all_types_there_and_back(self):
        for name, (tables, feature_dim, says) in NETWORKS.items():
            with self.subTest(name):
                self.check(name, tables(), feature_dim, says)
        if not LAYERS.is_dir():
            self.skipTest("there are no sources here, which say what types there are")
        from antiphon import _torch

        registered = set()
        for file in LAYERS.glob("*.cc"):
            registered |= set(re.findall(r'REGISTER_COMPONENT\(\s*LayerRegistry,\s*"([^"]+)"', file.read_text()))
        self.assertGreater(len(registered), 25)
        self.assertEqual(registered, set(_torch._FROM_LAYER))
        self.assertEqual(registered, self.seen, "a type of layer that no network of this test has")

    def test_the_recipes_networks(self):
        if not RECIPES.is_dir():
            self.skipTest("there are no recipes here")
        names = []
        for name, tables, dim in recipes():
            names.append(name)
            with self.subTest(name):
                self.check(name, tables, dim, {})
                if any(table.get("stride", 1) == 3 for table in tables):
                    self.check(name, tables, dim, {"frame_subsampling": 3})
        self.assertTrue([name for name in names if name.startswith("tdnnf.toml")], names)
        self.assertGreater(len(names), 10)

    def test_a_type_without_a_form_is_named(self):
        from antiphon import _torch

        tables, dim, says = NETWORKS["recurrent"]
        model = antiphon.Model(RandomModel(self.root / "model.safetensors", tables(), dim, says).path)
        with unittest.mock.patch.dict(_torch._FROM_LAYER):
            del _torch._FROM_LAYER["gru"]
            with self.assertRaisesRegex(antiphon.InputError, "layer 'gru1': the type 'gru' has no counterpart"):
                model.to_torch()

    def test_what_two_chains_of_a_layer_are_must_agree(self):
        import torch

        tables, dim, says = NETWORKS["bidirectional"]
        model = antiphon.Model(RandomModel(self.root / "model.safetensors", tables(), dim, says).path)
        network = model.to_torch()
        network.network[0].future.append(torch.nn.Tanh())
        with self.assertRaisesRegex(antiphon.InputError, "chains of different layers"):
            antiphon.Model.from_torch(network, self.root / "refused", like=model)

    def test_cells_with_a_hook_are_refused(self):
        tables, dim, says = NETWORKS["recurrent"]
        model = antiphon.Model(RandomModel(self.root / "model.safetensors", tables(), dim, says).path)
        network = model.to_torch()
        network.network.gru1.cells.register_forward_hook(lambda module, inputs, output: None)
        with self.assertRaisesRegex(antiphon.InputError, "hook"):
            antiphon.Model.from_torch(network, self.root / "refused", like=model)


if __name__ == "__main__":
    package.main()
