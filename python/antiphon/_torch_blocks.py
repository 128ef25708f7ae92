"""Layers of Antiphon as modules of PyTorch that are no products: what normalises, sets frames beside one another, looks
at several or leads around others. Shapes as in _torch_layers."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn
from torch.nn.functional import conv1d, linear, pad

from ._errors import InputError
from ._torch_layers import Affine, Context, Layer, Options, Tensors, context_around, context_of, vector


class BatchNorm(Layer):
    """Batch normalisation to another deviation than 1, or of the first columns alone."""

    kind = "batch-norm"

    def __init__(self, norm: nn.BatchNorm1d, tensors: Tensors, options: Options) -> None:
        """`norm`: of the columns that are normalised, with their statistics."""
        super().__init__()
        self.norm, self.target_rms = norm, options["target-rms"]
        self.inputs = tensors["statistics"].shape[1]
        self.affine = options["affine"]
        if self.affine:
            self.scale = nn.Parameter(vector(tensors, "scale"))
            self.offset = nn.Parameter(vector(tensors, "offset"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[frames, dim] to the same shape."""
        columns = self.norm.num_features
        y = torch.cat([self.target_rms * self.norm(x[:, :columns]), x[:, columns:]], dim=1)
        return self.scale * y + self.offset if self.affine else y

    def options(self) -> dict[str, Any]:
        """What it normalises to, and which columns."""
        columns = self.norm.num_features
        return {"epsilon": self.norm.eps, "target-rms": self.target_rms, "affine": self.affine,
                **({"columns": columns} if columns < self.inputs else {})}

    def tensors(self) -> dict[str, torch.Tensor]:
        """Statistics, and what is learnt."""
        others = self.inputs - self.norm.num_features
        statistics = pad(statistics_of(self.norm), (0, others), value=1.0)
        return {"statistics": statistics, **({"scale": self.scale, "offset": self.offset} if self.affine else {})}


def batch_norm(tensors: Tensors, options: Options) -> nn.Module:
    """PyTorch's own where it does the same."""
    sums = tensors["statistics"].double()
    columns = options.get("columns", 0) or sums.shape[1]
    count, total, square = sums[:, :columns]
    plain = options["target-rms"] == 1 and columns == sums.shape[1]
    norm = nn.BatchNorm1d(columns, eps=options["epsilon"], affine=plain and options["affine"])
    seen = count.clamp_min(torch.finfo(torch.float32).tiny)
    mean = torch.where(count > 0, total / seen, torch.zeros_like(total))
    variance = torch.where(count > 0, (square / seen - mean * mean).clamp_min(0), torch.ones_like(square))
    norm.running_mean, norm.running_var = mean.float(), variance.float()
    if not plain:
        return BatchNorm(norm, tensors, options)
    if options["affine"]:
        norm.weight = nn.Parameter(vector(tensors, "scale"))
        norm.bias = nn.Parameter(vector(tensors, "offset"))
    return norm


def statistics_of(norm: nn.BatchNorm1d) -> torch.Tensor:
    """As a model has them: rows of counts, sums and sums of squares; InputError if there are none."""
    if norm.running_mean is None or norm.running_var is None:
        raise InputError("BatchNorm1d without running statistics cannot score single frames: expected "
                         "track_running_stats=True")
    mean = norm.running_mean.detach().double()
    square = norm.running_var.detach().double() + mean * mean
    return torch.stack([torch.ones_like(mean), mean, square]).float()


class Renorm(Layer):
    """Scales each frame to a root mean square; frames of zeros stay."""

    kind = "renorm"

    def __init__(self, _: Tensors, options: Options) -> None:
        """With the root mean square of every frame."""
        super().__init__()
        self.target_rms = options["target-rms"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, dim] to the same shape."""
        square = x.square().mean(dim=-1, keepdim=True)
        return torch.where(square > 0, x * (self.target_rms * torch.rsqrt(square.clamp_min(1e-30))), x)

    def options(self) -> dict[str, Any]:
        """The root mean square."""
        return {"target-rms": self.target_rms}


class PNorm(Layer):
    """The p-norm of each group of neighbouring inputs."""

    kind = "p-norm"

    def __init__(self, _: Tensors, options: Options) -> None:
        """With p and the number of groups."""
        super().__init__()
        self.dim, self.p = options["dim"], options["p"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, inputs] to […, dim]."""
        return torch.linalg.vector_norm(x.unflatten(-1, (self.dim, -1)), ord=self.p, dim=-1)

    def options(self) -> dict[str, Any]:
        """Both."""
        return {"dim": self.dim, "p": self.p}


@functools.lru_cache(maxsize=8)
def _inverse_cosine(cepstra: int, lifter: float) -> torch.Tensor:
    """[filters, cepstra], as many as each other."""
    c = torch.arange(cepstra, dtype=torch.float64)
    lifted = torch.ones_like(c) if lifter == 0 else 1 + 0.5 * lifter * torch.sin(torch.pi * c / lifter)
    scale = torch.full_like(c, 2.0 / cepstra)
    scale[0] /= 2
    scale = scale.sqrt() / lifted
    return (scale * torch.cos(torch.pi / cepstra * (c[:, None] + 0.5) * c)).float()


class InverseCosine(Layer):
    """Cepstra back to logarithms of filterbank energies; columns behind them stay."""

    kind = "inverse-cosine"

    def __init__(self, _: Tensors, options: Options) -> None:
        """With the number of cepstra, 0 for all columns, and the lifter."""
        super().__init__()
        self.cepstra, self.lifter = options["cepstra"], options["lifter"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, dim] to the same shape."""
        cepstra = self.cepstra or x.shape[-1]
        return torch.cat([linear(x[..., :cepstra], _inverse_cosine(cepstra, self.lifter).to(x)), x[..., cepstra:]],
                         dim=-1)

    def options(self) -> dict[str, Any]:
        """Both."""
        return {"cepstra": self.cepstra, "lifter": self.lifter}


class Splice(Layer):
    """Sets frames beside one another; with a stride, for every so many frames only."""

    kind = "splice"

    def __init__(self, _: Tensors, options: Options) -> None:
        """With the offsets relative to the current frame, and the stride."""
        super().__init__()
        self.offsets = list(options["offsets"])
        self.context = context_around(self.offsets, options["stride"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[frames, …, dim] to [outputs, …, dim · len(offsets)]."""
        return torch.cat([self.context.frame_of_outputs(x, offset) for offset in self.offsets], dim=-1)

    def options(self) -> dict[str, Any]:
        """Offsets and stride."""
        return {"offsets": self.offsets, "stride": self.context.stride}


class Convolution(Affine):
    """The same filters at every position of a frame, and of those around it."""

    kind = "convolution"

    def __init__(self, tensors: Tensors, options: Options) -> None:
        """Of a model's tensors."""
        super().__init__(tensors, options)
        self.own = dict(options)
        self.context = context_around(options["offsets"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[frames, …, positions · channels] to [outputs, …, positions · filters]."""
        channels, window, stride = (self.own[key] for key in ("channels", "window", "stride"))
        height = x.shape[-1] // channels
        if self.own["channels-first"]:
            frames = x.unflatten(-1, (channels, height))
        else:
            frames = x.unflatten(-1, (height, channels)).transpose(-1, -2)
        seen = torch.cat([self.context.frame_of_outputs(frames, offset) for offset in self.own["offsets"]], dim=-2)
        before, behind = 0, 0
        if self.own["pad"]:
            before = (window - 1) // 2
            behind = max(0, (height - 1) // stride * stride + window - before - height)
        taps = self.weight.unflatten(1, (-1, window, channels)).transpose(-1, -2).flatten(1, 2)
        found = conv1d(pad(seen.flatten(0, -3), (before, behind)), taps, self.bias, stride)
        return found.transpose(-1, -2).reshape(*seen.shape[:-2], -1)

    def options(self) -> dict[str, Any]:
        """All."""
        return self.own


class Pooling(Layer):
    """The largest value, or the mean, of neighbouring positions, channel by channel."""

    kind = "pooling"

    def __init__(self, _: Tensors, options: Options) -> None:
        """With channels, window, stride and function."""
        super().__init__()
        self.own = dict(options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, positions · channels] to […, fewer positions · channels]."""
        window, stride = self.own["window"], self.own["stride"] or self.own["window"]
        positions = x.unflatten(-1, (-1, self.own["channels"]))
        height = positions.shape[-2]
        # Until all is covered; with a stride beyond the window, the last one still begins inside.
        last = min(max(0, height - window + stride - 1) // stride, (height - 1) // stride) * stride
        windows = [positions[..., first:first + window, :] for first in range(0, last + 1, stride)]
        largest = self.own["function"] == "max"
        return torch.stack([w.amax(-2) if largest else w.mean(-2) for w in windows], dim=-2).flatten(-2)

    def options(self) -> dict[str, Any]:
        """All."""
        return self.own


class Residual(Layer):
    """What a chain gives, and the frame that it stands for."""

    kind = "residual"

    def __init__(self, layers: nn.Sequential, options: Options) -> None:
        """The chain, and the factor of the shortcut."""
        super().__init__()
        self.layers, self.scale = layers, options["scale"]

    @property
    def context(self) -> Context:
        """That of the chain."""
        return context_of(self.layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[frames, …, dim] to [outputs, …, dim]."""
        return self.layers(x) + self.scale * self.context.frame_of_outputs(x)

    def options(self) -> dict[str, Any]:
        """The factor."""
        return {"scale": self.scale}

    def chains(self) -> dict[str, nn.Sequential]:
        """The one that the shortcut leads around."""
        return {"": self.layers}


class Ensemble(Layer):
    """The mean of what several networks give for the same frame."""

    kind = "ensemble"

    def __init__(self, members: list[nn.Sequential], weights: list[float]) -> None:
        """The networks, and how much each counts beside the others."""
        super().__init__()
        self.members, self.weights = nn.ModuleList(members), weights

    @property
    def context(self) -> Context:
        """The widest."""
        contexts = [context_of(member) for member in self.members]
        return Context(max(c.left for c in contexts), max(c.right for c in contexts), contexts[0].stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[frames, …, dim] to [outputs, …, outputs of each]."""
        whole, outputs = self.context, []
        for member in self.members:
            own = context_of(member)
            first, behind = whole.left - own.left, whole.right - own.right
            outputs.append(member(x[first:max(first, x.shape[0] - behind)]))
        return sum(w * y for w, y in zip(self.weights, outputs, strict=True)) / sum(self.weights)

    def chains(self) -> dict[str, nn.Sequential]:
        """All."""
        return {f"member{number + 1}.": member for number, member in enumerate(self.members)}

    def options_of_chains(self, chains: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """One beside the other, each with its weight."""
        return {"members": [{"layers": chain, "weight": weight}
                            for chain, weight in zip(chains, self.weights, strict=True)]}
