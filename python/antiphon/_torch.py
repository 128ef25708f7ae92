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

# As the library has them: classes that training never saw, and their score.
_LEAST_LOG_PRIOR = float(np.log(1e-10))
_DISABLED_SCORE = -1e10


class Normalize(nn.Module):
    """scale · (x + offset) per dimension; not trained."""

    def __init__(self, offset: torch.Tensor, scale: torch.Tensor) -> None:
        """Both [dim]."""
        super().__init__()
        self.register_buffer("offset", offset)
        self.register_buffer("scale", scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, dim] to the same shape."""
        return self.scale * (x + self.offset)


class FixedAffine(nn.Module):
    """x · weightᵀ + bias; not trained."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        """[outputs, inputs] and [outputs]."""
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, inputs] to […, outputs]."""
        return nn.functional.linear(x, self.weight, self.bias)


class Renorm(nn.Module):
    """Scales each frame to a root mean square; frames of zeros stay."""

    def __init__(self, target_rms: float) -> None:
        """The root mean square of every frame."""
        super().__init__()
        self.target_rms = target_rms

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, dim] to the same shape."""
        square = x.square().mean(dim=-1, keepdim=True)
        return torch.where(square > 0, x * (self.target_rms * torch.rsqrt(square.clamp_min(1e-30))), x)


class Splice(nn.Module):
    """Sets frames beside one another; gives those whose neighbours are all there."""

    def __init__(self, offsets: list[int]) -> None:
        """Relative to the current frame."""
        super().__init__()
        self.offsets = offsets
        self.left, self.right = max(0, -min(offsets)), max(0, max(offsets))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[frames, dim] to [frames − left − right, dim · len(offsets)]."""
        outputs = x.shape[0] - self.left - self.right
        return torch.cat([x[self.left + o:self.left + o + outputs] for o in self.offsets], dim=-1)


class Network(nn.Module):
    """A model of Antiphon as a module.

    `network` goes from spliced frames to logits; the module itself from the frames of an utterance to what Model.score
    gives: splicing, log-softmax and priors around it.
    """

    network: nn.Sequential

    def __init__(self, network: nn.Sequential, left_context: int, right_context: int, log_priors: list[float]) -> None:
        """`log_priors`: of each output; empty for none."""
        super().__init__()
        self.network = network
        self.left_context, self.right_context = left_context, right_context
        priors = torch.tensor(log_priors, dtype=torch.float32)
        self.register_buffer("log_priors", priors)
        self.register_buffer("unseen", priors < _LEAST_LOG_PRIOR)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[frames, feature_dim] to log-likelihoods [frames, outputs], up to a constant per frame."""
        splices = [layer for layer in self.network if isinstance(layer, Splice)]
        left, right = sum(s.left for s in splices), sum(s.right for s in splices)
        frames = features.shape[0]
        if frames == 0:
            return features.new_zeros((0, self.log_priors.numel()))
        centres = torch.arange(-left, frames + right, device=features.device).clamp(0, frames - 1)
        columns = [features[(centres + k).clamp(0, frames - 1)]
                   for k in range(-self.left_context, self.right_context + 1)]
        scores = torch.log_softmax(self.network(torch.cat(columns, dim=1)), dim=-1)
        if self.log_priors.numel() == 0:
            return scores
        scores = scores - torch.where(self.unseen, torch.zeros_like(self.log_priors), self.log_priors)
        return scores.masked_fill(self.unseen, _DISABLED_SCORE)


Tensors = dict[str, Any]


def _vector(tensors: Tensors, name: str) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(tensors[name][0]))


def _linear(tensors: Tensors, name: str, bias: bool) -> nn.Module:
    weight = torch.from_numpy(tensors[f"{name}.weight"])
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias, device="meta")
    layer.weight = nn.Parameter(weight)
    if bias:
        layer.bias = nn.Parameter(_vector(tensors, f"{name}.bias"))
    return layer


def _batch_norm(tensors: Tensors, name: str, options: dict[str, Any]) -> nn.Module:
    if options["target-rms"] != 1 or options.get("columns", 0) != 0:
        raise InputError(f"layer '{name}': a batch-norm with target-rms or columns has no counterpart in PyTorch")
    count, total, square = (row.astype(np.float64) for row in tensors[f"{name}.statistics"])
    layer = nn.BatchNorm1d(len(count), eps=options["epsilon"], affine=options["affine"])
    seen = np.maximum(count, np.finfo(np.float32).tiny)
    mean = np.where(count > 0, total / seen, 0)
    variance = np.where(count > 0, np.maximum(square / seen - mean * mean, 0), 1)
    layer.running_mean = torch.from_numpy(mean.astype(np.float32))
    layer.running_var = torch.from_numpy(variance.astype(np.float32))
    if options["affine"]:
        layer.weight = nn.Parameter(_vector(tensors, f"{name}.scale"))
        layer.bias = nn.Parameter(_vector(tensors, f"{name}.offset"))
    return layer


def _splice(name: str, options: dict[str, Any]) -> nn.Module:
    if options["stride"] != 1:
        raise InputError(f"layer '{name}': frames that are left out (stride) have no counterpart here")
    return Splice(options["offsets"])


_FROM_LAYER: dict[str, Callable[[Tensors, str, dict[str, Any]], nn.Module]] = {
    "affine": lambda t, n, o: _linear(t, n, bias=True),
    "linear": lambda t, n, o: _linear(t, n, bias=False),
    "fixed-affine": lambda t, n, o: FixedAffine(torch.from_numpy(t[f"{n}.weight"]), _vector(t, f"{n}.bias")),
    "normalize": lambda t, n, o: Normalize(_vector(t, f"{n}.offset"), _vector(t, f"{n}.scale")),
    "relu": lambda t, n, o: nn.ReLU(),
    "sigmoid": lambda t, n, o: nn.Sigmoid(),
    "tanh": lambda t, n, o: nn.Tanh(),
    "renorm": lambda t, n, o: Renorm(o["target-rms"]),
    "batch-norm": _batch_norm,
    "splice": lambda t, n, o: _splice(n, o),
    "dropout": lambda t, n, o: nn.Dropout(o["proportion"]),
}


def to_torch(file: _core.ModelFile) -> Network:
    """The module of a model file; in scoring mode."""
    if file.frames_per_forward != 1 or file.frame_subsampling != 1:
        raise InputError("a network that scores several frames at once has no counterpart in PyTorch here")
    layers = file.layers()
    tensors = {name: values for name, _, values in file.take_tensors()}
    modules: dict[str, nn.Module] = {}
    for name, kind, _, _, options in layers:
        if kind not in _FROM_LAYER:
            raise InputError(f"layer '{name}': the type '{kind}' has no counterpart in PyTorch here; "
                             f"known: {', '.join(sorted(_FROM_LAYER))}")
        modules[name.replace(".", "_")] = _FROM_LAYER[kind](tensors, name, toml_table(options))
    sequential = nn.Sequential()
    for name, module in modules.items():
        sequential.add_module(name, module)
    network = Network(sequential, file.left_context, file.right_context, file.log_priors)
    network.eval()
    return network


class _Writer:
    """Layers as TOML, and their values, in the order of the network."""

    def __init__(self, file: _core.ModelFile) -> None:
        self.file, self.toml, self.count = file, "", 0
        self.in_dim = file.feature_dim * (file.left_context + 1 + file.right_context)

    def layer(self, kind: str, tensors: dict[str, torch.Tensor], **options: Any) -> None:
        self.count += 1
        name = f"{kind}{self.count}"
        self.toml += f'[[layer]]\ntype = "{kind}"\nname = "{name}"\n'
        for key, value in options.items():
            self.toml += f"{key.replace('_', '-')} = {toml_value(value, key)}\n"
        for key, tensor in tensors.items():
            values = tensor.detach().to("cpu", torch.float32).contiguous().numpy()
            self.file.add_tensor(f"{name}.{key}", values if values.ndim == 2 else values[None, :])

    def add(self, module: nn.Module) -> None:
        # Exactly these types: what a subclass computes otherwise, or a hook, no file would have.
        kind = type(module)
        if nn.utils.parametrize.is_parametrized(module):  # whose weights are computed when they are asked for
            kind = kind.__bases__[0]
        if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
            raise InputError(f"a module of the type {kind.__name__} has a hook or a forward of its own, which a model "
                             "has not: remove it (torch.nn.utils.remove_weight_norm, for example)")
        if kind in (nn.Sequential, Network):
            # Walked as they are called: children() names a module that stands there twice only once.
            for inside in module.network if isinstance(module, Network) else module:
                self.add(inside)
        elif kind is nn.Linear:
            if module.bias is None:
                self.layer("linear", {"weight": module.weight}, dim=module.out_features)
            else:
                self.layer("affine", {"weight": module.weight, "bias": module.bias}, dim=module.out_features)
        elif kind is FixedAffine:
            self.layer("fixed-affine", {"weight": module.weight, "bias": module.bias}, dim=module.weight.shape[0])
        elif kind is Normalize:
            self.layer("normalize", {"offset": module.offset, "scale": module.scale})
        elif kind is nn.BatchNorm1d:
            self.batch_norm(module)
        elif kind is Renorm:
            self.layer("renorm", {}, target_rms=module.target_rms)
        elif kind is Splice:
            self.layer("splice", {}, offsets=module.offsets)
        elif kind in (nn.ReLU, nn.Sigmoid, nn.Tanh):
            self.layer(kind.__name__.lower(), {})
        elif kind not in (nn.Dropout, nn.Identity):
            raise TypeError(f"a module of the type {kind.__name__} has no counterpart in a model; expected "
                            "Linear, ReLU, Sigmoid, Tanh, BatchNorm1d, Dropout, Identity, or Sequential of them")

    def batch_norm(self, module: nn.BatchNorm1d) -> None:
        if module.running_mean is None or module.running_var is None:
            raise InputError("BatchNorm1d without running statistics cannot score single frames: expected "
                             "track_running_stats=True")
        mean = module.running_mean.detach().to("cpu", torch.float64)
        square = module.running_var.detach().to("cpu", torch.float64) + mean * mean
        tensors = {"statistics": torch.stack([torch.ones_like(mean), mean, square])}
        if module.affine:
            tensors |= {"scale": module.weight, "offset": module.bias}
        self.layer("batch-norm", tensors, epsilon=module.eps, affine=module.affine)


def put_into(module: nn.Module, file: _core.ModelFile) -> None:
    """The module's layers and values become the file's."""
    if not isinstance(module, nn.Module):
        raise TypeError(f"module: expected a torch.nn.Module, not {type(module).__name__}")
    if file.feature_dim < 1:
        raise InputError("feature_dim: expected the number of values per frame, or `store` or `like`, which know it")
    if file.frames_per_forward != 1 or file.frame_subsampling != 1:
        raise InputError("like: expected a model that scores one frame at a time")
    writer = _Writer(file)
    writer.add(module)
    file.network = writer.toml


def require_same(module: nn.Module, file: _core.ModelFile, model: _core.Model) -> None:
    """InputError if the model that was written scores otherwise than the module does, on frames drawn at random."""
    frames = np.random.default_rng(1).standard_normal((40, file.feature_dim), dtype=np.float32)
    itself = copy.deepcopy(module.network if isinstance(module, Network) else module).to("cpu", torch.float32).eval()
    layers = itself if isinstance(itself, nn.Sequential) else nn.Sequential(itself)
    with torch.no_grad():
        expected = Network(layers, file.left_context, file.right_context, file.log_priors)(torch.from_numpy(frames))
    wanted, found = expected.numpy(), model.score(frames)
    tolerance = 1e-4 * max(1.0, float(np.abs(wanted, where=wanted > _DISABLED_SCORE, out=np.zeros_like(wanted)).max()))
    if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=0, atol=tolerance):
        raise InputError("the module gives other scores than the model that its layers make: expected a network that "
                         "does nothing but what these layers do")
