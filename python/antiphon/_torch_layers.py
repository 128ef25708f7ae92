"""What layers that Antiphon has and PyTorch has not share as modules, and those of them that are products of matrices.
Imported when asked for, as it needs torch.

Rows are frames in the order of time, the last dimension holds their values; what stands between are streams that have
nothing to do with each other. Layers that look at several frames give fewer than they get: those whose frames are all
there. They score as Antiphon does in fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import linear

from ._errors import InputError

Tensors = Mapping[str, torch.Tensor]
Options = Mapping[str, Any]


class Context(NamedTuple):
    """Which frames an output needs: output j those from j · stride on, left + 1 + right of them; it stands for frame
    j · stride + left. n outputs take n · stride + left + right frames."""

    left: int = 0
    right: int = 0
    stride: int = 1

    def outputs(self, frames: int) -> int:
        """For so many frames."""
        return max(0, (frames - self.left - self.right) // self.stride)

    def frame_of_outputs(self, x: torch.Tensor, offset: int = 0) -> torch.Tensor:
        """The frame that each output stands for, or the one that lies `offset` behind it."""
        outputs = self.outputs(x.shape[0])
        first = self.left + offset
        return x[first:first + outputs * self.stride:self.stride]


def context_around(offsets: list[int], stride: int = 1) -> Context:
    """Of a layer that sees these frames."""
    return Context(max(0, -min(offsets)), max(0, max(offsets)), stride)


def context_of(module: nn.Module) -> Context:
    """Of a module, or of a chain of them."""
    if not isinstance(module, nn.Sequential):
        context = getattr(module, "context", None)
        return context if isinstance(context, Context) else Context()
    left, right, stride = Context()
    for layer in module:
        above = context_of(layer)
        left, right, stride = left + above.left * stride, right + above.right * stride, stride * above.stride
    return Context(left, right, stride)


class Layer(nn.Module):
    """One of them; `kind` is its type in Antiphon."""

    kind: str

    def options(self) -> dict[str, Any]:
        """The layer's own keys, with underscores."""
        return {}

    def tensors(self) -> dict[str, torch.Tensor]:
        """By the names that they have in a model; vectors are rows."""
        return {}

    def chains(self) -> dict[str, nn.Sequential]:
        """Chains of layers inside, by what their tensors' names begin with."""
        return {}

    def options_of_chains(self, chains: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """The keys that say what is inside, of the chains' tables."""
        if any(chain != chains[0] for chain in chains):
            raise InputError(f"a module of the type {type(self).__name__} has chains of different layers; expected the "
                             "same in all")
        return {"layers": chains[0]} if chains else {}


def vector(tensors: Tensors, name: str) -> torch.Tensor:
    """A tensor that is one row in a model."""
    return tensors[name][0]


class Normalize(Layer):
    """scale · (x + offset) per dimension; not trained."""

    kind = "normalize"

    def __init__(self, tensors: Tensors, _: Options) -> None:
        """Of a model's tensors."""
        super().__init__()
        self.register_buffer("offset", vector(tensors, "offset"))
        self.register_buffer("scale", vector(tensors, "scale"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, dim] to the same shape."""
        return self.scale * (x + self.offset)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Offset and scale."""
        return {"offset": self.offset, "scale": self.scale}


class FixedAffine(Layer):
    """x · weightᵀ + bias; not trained."""

    kind = "fixed-affine"

    def __init__(self, tensors: Tensors, _: Options) -> None:
        """Of a model's tensors."""
        super().__init__()
        self.register_buffer("weight", tensors["weight"])
        self.register_buffer("bias", vector(tensors, "bias"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, inputs] to […, outputs]."""
        return linear(x, self.weight, self.bias)

    def options(self) -> dict[str, Any]:
        """Outputs."""
        return {"dim": self.weight.shape[0]}

    def tensors(self) -> dict[str, torch.Tensor]:
        """Weight and bias."""
        return {"weight": self.weight, "bias": self.bias}


class QuantizedAffine(FixedAffine):
    """Weights that are rounded to 8 or 4 bits, and stay as they are: PyTorch does not train them. Inputs are not
    rounded, as in fp32."""

    kind = "quantized-affine"

    def __init__(self, tensors: Tensors, options: Options) -> None:
        """Of a model's tensors."""
        super().__init__(tensors, options)
        self.bits = {"weight-bits": options["weight-bits"], "input-bits": options["input-bits"]}
        self.calibration = [name for name in ("input_scale", "input_zero") if name in tensors]
        for name in self.calibration:
            self.register_buffer(name, vector(tensors, name))

    def options(self) -> dict[str, Any]:
        """Outputs and bits."""
        return {**super().options(), **self.bits}

    def tensors(self) -> dict[str, torch.Tensor]:
        """The weights and what the inputs' calibration found."""
        return {**super().tensors(), **{name: getattr(self, name) for name in self.calibration}}


class Affine(Layer):
    """What layers with a trained weight and bias share."""

    def __init__(self, tensors: Tensors, _: Options) -> None:
        super().__init__()
        self.weight = nn.Parameter(tensors["weight"])
        self.bias = nn.Parameter(vector(tensors, "bias"))

    def options(self) -> dict[str, Any]:
        """Outputs."""
        return {"dim": self.bias.shape[0]}

    def tensors(self) -> dict[str, torch.Tensor]:
        """Weight and bias."""
        return {"weight": self.weight, "bias": self.bias}


class SparseAffine(Affine):
    """x · (weight where the mask is 1)ᵀ + bias. Weights that are rounded, too, are not trained."""

    kind = "sparse-affine"

    def __init__(self, tensors: Tensors, options: Options) -> None:
        """Of a model's tensors."""
        super().__init__(tensors, options)
        self.own = {key: options[key] for key in ("block-rows", "block-cols", "weight-bits", "input-bits")}
        self.weight.requires_grad_(options["weight-bits"] == 0)
        self.stored = [name for name in ("mask", "input_scale", "input_zero") if name in tensors]
        for name in self.stored:
            self.register_buffer(name, tensors[name])

    def kept(self) -> torch.Tensor:
        """The weight, zero where the mask is."""
        rows, cols = self.own["block-rows"], self.own["block-cols"]
        return self.weight * self.mask.repeat_interleave(rows, 0).repeat_interleave(cols, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, inputs] to […, outputs]."""
        return linear(x, self.kept(), self.bias)

    def options(self) -> dict[str, Any]:
        """Outputs, blocks and bits."""
        return {**super().options(), **self.own}

    def tensors(self) -> dict[str, torch.Tensor]:
        """The weights, the mask and what the inputs' calibration found."""
        return {**super().tensors(), "weight": self.kept(), **{name: getattr(self, name) for name in self.stored}}


class CirculantAffine(Affine):
    """Blocks that repeat one column, turned by one place from column to column; the columns are stored and trained."""

    kind = "circulant-affine"

    def __init__(self, tensors: Tensors, options: Options) -> None:
        """Of a model's tensors."""
        super().__init__(tensors, options)
        self.block = options["block"]
        rows = torch.arange(self.bias.shape[0])[:, None]
        cols = torch.arange(self.weight.shape[1])[None, :]
        self.register_buffer("rows", rows // self.block, persistent=False)
        self.register_buffer("places", cols // self.block * self.block + (rows - cols % self.block) % self.block,
                             persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, inputs] to […, outputs]."""
        return linear(x, self.weight[self.rows, self.places], self.bias)

    def options(self) -> dict[str, Any]:
        """Outputs and the side of a block."""
        return {**super().options(), "block": self.block}


def _signs(x: torch.Tensor) -> torch.Tensor:
    """By sign, 0 as +1, times the row's mean absolute value."""
    mean = x.abs().mean(dim=-1, keepdim=True)
    return torch.where(x < 0, -mean, mean)


class BinaryAffine(Affine):
    """Weights by their signs and the mean absolute value of a row; with `binary-input` inputs, too. Derivatives go
    straight through, as in Antiphon."""

    kind = "binary-affine"

    def __init__(self, tensors: Tensors, options: Options) -> None:
        """Of a model's tensors."""
        super().__init__(tensors, options)
        self.binary_input = options["binary-input"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, inputs] to […, outputs]."""
        if self.binary_input:
            within = x.clamp(-1, 1)
            x = within + (_signs(x) - within).detach()
        return linear(x, self.weight + (_signs(self.weight) - self.weight).detach(), self.bias)

    def options(self) -> dict[str, Any]:
        """Outputs, and whether inputs are rounded."""
        return {**super().options(), "binary-input": self.binary_input}


class FrameAffine(Affine):
    """One affine transform for each frame of a spliced window."""

    kind = "frame-affine"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, frames · dim] to the same shape."""
        return linear(x.unflatten(-1, (-1, self.bias.shape[0])), self.weight, self.bias).flatten(-2)


class Lhuc(Layer):
    """2σ(r) · x per dimension."""

    kind = "lhuc"

    def __init__(self, tensors: Tensors, _: Options) -> None:
        """Of a model's tensors."""
        super().__init__()
        self.r = nn.Parameter(vector(tensors, "r"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, dim] to the same shape."""
        return 2 * torch.sigmoid(self.r) * x

    def tensors(self) -> dict[str, torch.Tensor]:
        """r."""
        return {"r": self.r}
