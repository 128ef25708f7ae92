"""Networks of Antiphon as modules of PyTorch, and back. Imported when asked for, as it needs torch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.utils.parametrize
from torch import nn

from . import _core
from ._errors import InputError
from ._toml import toml_table, toml_value
from ._torch_blocks import (BatchNorm, Convolution, Ensemble, InverseCosine, PNorm, Pooling, Renorm, Residual, Splice,
                            batch_norm, statistics_of)
from ._torch_layers import (BinaryAffine, CirculantAffine, FixedAffine, FrameAffine, Layer, Lhuc, Normalize, Options,
                            QuantizedAffine, SparseAffine, Tensors, context_of, vector)
from ._torch_recurrent import Bidirectional, Gru, Lstm

# As the library has them: classes that training never saw, and their score.
_LEAST_LOG_PRIOR = float(np.log(1e-10))
_DISABLED_SCORE = -1e10


class Network(nn.Module):
    """A model of Antiphon as a module.

    `network` goes from spliced frames to logits; the module itself from the frames of an utterance to what Model.score
    gives: splicing, log-softmax and priors around it.
    """

    network: nn.Sequential

    def __init__(self, network: nn.Sequential, file: _core.ModelFile) -> None:
        """`file`: what else its model says: the frames that are spliced, priors, the frames that one output scores."""
        super().__init__()
        self.network = network
        self.left_context, self.right_context = file.left_context, file.right_context
        self.frames_per_forward, self.first_frame_offset = file.frames_per_forward, file.first_frame_offset
        self.frame_subsampling = file.frame_subsampling
        priors = torch.tensor(file.log_priors, dtype=torch.float32)
        self.register_buffer("log_priors", priors)
        self.register_buffer("unseen", priors < _LEAST_LOG_PRIOR)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[frames, feature_dim] to log-likelihoods [frames, outputs], up to a constant per frame; as Model.score, of a
        chain model one row for each few frames."""
        frames = features.shape[0]
        if frames == 0:
            return features.new_zeros((0, self.log_priors.numel()))
        centres = self.centres(frames).to(features.device)
        columns = [features[(centres + k).clamp(0, frames - 1)]
                   for k in range(-self.left_context, self.right_context + 1)]
        logits = self.network(torch.cat(columns, dim=1))
        logits = logits.reshape(logits.shape[0] * self.frames_per_forward, -1)
        if self.frame_subsampling == 1:
            logits = logits.repeat_interleave(context_of(self.network).stride, dim=0)[:frames]
        scores = torch.log_softmax(logits, dim=-1)
        if self.log_priors.numel() == 0:
            return scores
        scores = scores - torch.where(self.unseen, torch.zeros_like(self.log_priors), self.log_priors)
        return scores.masked_fill(self.unseen, _DISABLED_SCORE)

    def centres(self, frames: int) -> torch.Tensor:
        """Of the windows that go through the network; frames beyond the ends are repeated ones."""
        if self.frames_per_forward > 1:
            return torch.arange(0, frames, self.frames_per_forward) - self.first_frame_offset
        left, right, stride = context_of(self.network)
        outputs = (frames + stride - 1) // stride
        return torch.arange(-left, outputs * stride + right).clamp(0, frames - 1)


def _linear(tensors: Tensors, bias: bool) -> nn.Module:
    weight = tensors["weight"]
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias, device="meta")
    layer.weight = nn.Parameter(weight)
    if bias:
        layer.bias = nn.Parameter(vector(tensors, "bias"))
    return layer


def _dropout(options: Options) -> nn.Module:
    """Nothing, where PyTorch has no such masks: they are of training alone."""
    special = options["per-frame"] or options["per-chunk"] or options["continuous"]
    return nn.Identity() if special else nn.Dropout(options["proportion"])


# What a layer becomes, of its tensors (by the names that it calls them) and options.
_FROM_LAYER: dict[str, Callable[[Tensors, Options], nn.Module]] = {
    "affine": lambda tensors, _: _linear(tensors, bias=True),
    "linear": lambda tensors, _: _linear(tensors, bias=False),
    "relu": lambda tensors, _: nn.ReLU(),
    "sigmoid": lambda tensors, _: nn.Sigmoid(),
    "tanh": lambda tensors, _: nn.Tanh(),
    "softmax": lambda tensors, _: nn.Softmax(dim=-1),
    "log-softmax": lambda tensors, _: nn.LogSoftmax(dim=-1),
    "batch-norm": batch_norm,
    "dropout": lambda _, options: _dropout(options),
    # Of training alone.
    "spec-mask": lambda tensors, _: nn.Identity(),
    "gradient-reversal": lambda tensors, _: nn.Identity(),
    "side-task": lambda tensors, _: nn.Identity(),
    "residual": lambda tensors, options: Residual(_chain(options["layers"], tensors, ""), options),
    "bidirectional": lambda tensors, options: Bidirectional(
        _chain(options["layers"], tensors, "past."), _chain(options["layers"], tensors, "future."), options),
    "ensemble": lambda tensors, options: Ensemble(
        [_chain(member["layers"], tensors, f"member{number + 1}.") for number, member in enumerate(options["members"])],
        [member["weight"] for member in options["members"]]),
}
_FROM_LAYER.update({layer.kind: layer for layer in (
    BinaryAffine, CirculantAffine, Convolution, FixedAffine, FrameAffine, Gru, InverseCosine, Lhuc, Lstm, Normalize,
    PNorm, Pooling, QuantizedAffine, Renorm, SparseAffine, Splice)})


def _below(tensors: Tensors, prefix: str) -> dict[str, torch.Tensor]:
    """Those whose names begin so, by the rest of their names."""
    return {name[len(prefix):]: value for name, value in tensors.items() if name.startswith(prefix)}


# Of every layer's table, and of training.
_COMMON = ("type", "name", "learning-rate-factor", "weight-decay-factor", "max-change")


def _chain(layers: list[dict[str, Any]], tensors: Tensors, prefix: str) -> nn.Sequential:
    """The layers that tables describe, whose tensors' names begin with the prefix."""
    sequential = nn.Sequential()
    for table in layers:
        name, kind = table["name"], table["type"]
        options = {key: value for key, value in table.items() if key not in _COMMON}
        if kind not in _FROM_LAYER:
            raise InputError(f"layer '{prefix}{name}': the type '{kind}' has no counterpart in PyTorch here; "
                             f"known: {', '.join(sorted(_FROM_LAYER))}")
        child = name.replace(".", "_")
        while hasattr(sequential, child):
            child += "_"
        sequential.add_module(child, _FROM_LAYER[kind](_below(tensors, f"{prefix}{name}."), options))
    return sequential


def to_torch(file: _core.ModelFile) -> Network:
    """The module of a model file; in scoring mode."""
    tensors = {name: torch.from_numpy(np.ascontiguousarray(values)) for name, _, values in file.take_tensors()}
    layers = [{**toml_table(options), "name": name, "type": kind} for name, kind, _, _, options in file.layers()]
    network = Network(_chain(layers, tensors, ""), file)
    network.eval()
    return network


class _Writer:
    """Layers as tables of TOML, and their values, in the order of the network."""

    def __init__(self, file: _core.ModelFile) -> None:
        self.file = file

    def write(self, module: nn.Module) -> None:
        """The file's network becomes the module's."""
        tables: list[dict[str, Any]] = []
        self.add(module, "", tables)
        self.file.network = "".join(
            "[[layer]]\n" + "".join(f"{key} = {toml_value(value, key)}\n" for key, value in table.items())
            for table in tables)

    def layer(self, tables: list[dict[str, Any]], prefix: str, kind: str, tensors: Tensors, **options: Any) -> None:
        """One more behind `tables`, the layers so far of a chain whose tensors' names begin with the prefix."""
        name = f"{kind}{len(tables) + 1}"
        tables.append({"type": kind, "name": name, **{key.replace("_", "-"): value for key, value in options.items()}})
        for key, tensor in tensors.items():
            values = tensor.detach().to("cpu", torch.float32).contiguous().numpy()
            self.file.add_tensor(f"{prefix}{name}.{key}", values if values.ndim == 2 else values.reshape(1, -1))

    def add(self, module: nn.Module, prefix: str, tables: list[dict[str, Any]]) -> None:
        """One module, or those of a chain."""
        # Exactly these types: what a subclass computes otherwise, or a hook, no file would have.
        kind = type(module)
        if nn.utils.parametrize.is_parametrized(module):  # whose weights are computed when they are asked for
            kind = kind.__bases__[0]
        require_plain(module, kind)
        if kind in (nn.Sequential, Network):
            # Walked as they are called: children() names a module that stands there twice only once.
            for inside in module.network if isinstance(module, Network) else module:
                self.add(inside, prefix, tables)
        elif kind is nn.Linear:
            bias = {} if module.bias is None else {"bias": module.bias}
            self.layer(tables, prefix, "affine" if bias else "linear", {"weight": module.weight, **bias},
                       dim=module.out_features)
        elif kind is nn.BatchNorm1d:
            learnt = {"scale": module.weight, "offset": module.bias} if module.affine else {}
            self.layer(tables, prefix, "batch-norm", {"statistics": statistics_of(module), **learnt},
                       epsilon=module.eps, affine=module.affine)
        elif kind in _OF_VALUES:
            self.layer(tables, prefix, _OF_VALUES[kind], {})
        elif kind in (nn.Softmax, nn.LogSoftmax) and module.dim in (-1, 1):
            self.layer(tables, prefix, "softmax" if kind is nn.Softmax else "log-softmax", {})
        elif kind in _LAYERS:
            self.add_layer(module, prefix, tables)
        elif kind not in (nn.Dropout, nn.Identity):
            raise TypeError(f"a module of the type {kind.__name__} has no counterpart in a model; expected "
                            "Linear, ReLU, Sigmoid, Tanh, Softmax, BatchNorm1d, Dropout, Identity, what to_torch made, "
                            "or Sequential of them")

    def add_layer(self, module: Layer, prefix: str, tables: list[dict[str, Any]]) -> None:
        """One that to_torch made, with the chains inside."""
        place = f"{prefix}{module.kind}{len(tables) + 1}."
        chains: list[list[dict[str, Any]]] = []
        for within, chain in module.chains().items():
            chains.append([])
            self.add(chain, place + within, chains[-1])
        self.layer(tables, prefix, module.kind, module.tensors(), **module.options(),
                   **module.options_of_chains(chains))


_OF_VALUES = {nn.ReLU: "relu", nn.Sigmoid: "sigmoid", nn.Tanh: "tanh"}
_LAYERS = (BatchNorm, Bidirectional, BinaryAffine, CirculantAffine, Convolution, Ensemble, FixedAffine, FrameAffine,
           Gru, InverseCosine, Lhuc, Lstm, Normalize, PNorm, Pooling, QuantizedAffine, Renorm, Residual, SparseAffine,
           Splice)


def require_plain(module: nn.Module, kind: type) -> None:
    """InputError for what computes more than its type says."""
    # Cells of PyTorch within a layer of ours are as they come.
    inside = [module.cells] if kind is Gru else [module.norm] if kind is BatchNorm else []
    for one in (module, *inside):
        if one._forward_hooks or one._forward_pre_hooks or "forward" in vars(one):
            raise InputError(f"a module of the type {kind.__name__} has a hook or a forward of its own, which a model "
                             "has not: remove it (torch.nn.utils.remove_weight_norm, for example)")


def put_into(module: nn.Module, file: _core.ModelFile) -> None:
    """The module's layers and values become the file's."""
    if not isinstance(module, nn.Module):
        raise TypeError(f"module: expected a torch.nn.Module, not {type(module).__name__}")
    if file.feature_dim < 1:
        raise InputError("feature_dim: expected the number of values per frame, or `store` or `like`, which know it")
    _Writer(file).write(module)


def require_same(module: nn.Module, file: _core.ModelFile, model: _core.Model) -> None:
    """InputError if the model that was written scores otherwise than the module does, on frames drawn at random."""
    frames = np.random.default_rng(1).standard_normal((40, file.feature_dim), dtype=np.float32)
    itself = copy.deepcopy(module.network if isinstance(module, Network) else module).to("cpu", torch.float32).eval()
    layers = itself if isinstance(itself, nn.Sequential) else nn.Sequential(itself)
    with torch.no_grad():
        expected = Network(layers, file)(torch.from_numpy(frames))
    wanted, found = expected.numpy(), model.score(frames)
    tolerance = 1e-4 * max(1.0, float(np.abs(wanted, where=wanted > _DISABLED_SCORE, out=np.zeros_like(wanted)).max()))
    if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=0, atol=tolerance):
        raise InputError("the module gives other scores than the model that its layers make: expected a network that "
                         "does nothing but what these layers do")
