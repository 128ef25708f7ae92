"""Antiphon's recurrent layers as modules of PyTorch; shapes as in _torch_layers. A state begins at zero, and goes on to
the last frame."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear

from ._torch_layers import Context, Layer, Options, Tensors


class Gru(Layer):
    """Gated recurrent units, in the form that PyTorch has them too."""

    kind = "gru"

    def __init__(self, tensors: Tensors, _: Options) -> None:
        """Of a model's tensors."""
        super().__init__()
        self.cells = nn.GRU(tensors["weight"].shape[1], tensors["recurrent"].shape[1])
        for theirs, ours in _GRU.items():
            value = tensors[ours]
            setattr(self.cells, theirs, nn.Parameter(value if "weight" in theirs else value[0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[frames, inputs] or [frames, streams, inputs] to the same with a value per cell."""
        return self.cells(x)[0]

    def options(self) -> dict[str, Any]:
        """Cells."""
        return {"dim": self.cells.hidden_size}

    def tensors(self) -> dict[str, torch.Tensor]:
        """Weights and biases."""
        return {ours: getattr(self.cells, theirs) for theirs, ours in _GRU.items()}


_GRU = {"weight_ih_l0": "weight", "bias_ih_l0": "bias", "weight_hh_l0": "recurrent", "bias_hh_l0": "recurrent_bias"}


class Lstm(Layer):
    """Long short-term memory with peepholes, a projection and gates that share their input weights, where the model has
    them. One frame after another in Python: PyTorch's own has no peepholes."""

    kind = "lstm"

    def __init__(self, tensors: Tensors, options: Options) -> None:
        """Of a model's tensors."""
        super().__init__()
        self.own = {key: options[key] for key in ("dim", "projection", "peepholes", "share-gates")}
        self.names = [name for name in ("weight", "bias", "recurrent", "peepholes", "scale", "projection")
                      if name in tensors]
        for name in self.names:
            self.register_parameter(name, nn.Parameter(tensors[name][0] if name == "bias" else tensors[name]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[frames, inputs] or [frames, streams, inputs] to the same with a value per output."""
        streams = x if x.dim() == 3 else x[:, None]
        inputs = linear(streams, self.weight)
        if self.own["share-gates"]:
            inputs = (inputs.unsqueeze(-2) * self.scale).flatten(-2)
        cell = streams.new_zeros((streams.shape[1], self.own["dim"]))
        output = streams.new_zeros((streams.shape[1], self.recurrent.shape[1]))
        outputs = []
        for frame in inputs + self.bias:
            cell, output = self.step(frame + linear(output, self.recurrent), cell)
            outputs.append(output)
        found = torch.stack(outputs)
        return found if x.dim() == 3 else found[:, 0]

    def step(self, gates: torch.Tensor, cell: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """One frame: cells and outputs, of the gates' inputs [streams, 4 · cells] and the cells before."""
        i, f, g, o = gates.chunk(4, dim=-1)
        if self.own["peepholes"]:
            i, f = i + self.peepholes[0] * cell, f + self.peepholes[1] * cell
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        if self.own["peepholes"]:
            o = o + self.peepholes[2] * cell
        output = torch.sigmoid(o) * torch.tanh(cell)
        return cell, linear(output, self.projection) if self.own["projection"] else output

    def options(self) -> dict[str, Any]:
        """Sizes, and what it has."""
        return self.own

    def tensors(self) -> dict[str, torch.Tensor]:
        """Weights and biases."""
        return {name: getattr(self, name) for name in self.names}


class Bidirectional(Layer):
    """One chain over the frames up to an output's, another one over those after it, latest first, anew for each
    output."""

    kind = "bidirectional"

    def __init__(self, past: nn.Sequential, future: nn.Sequential, options: Options) -> None:
        """Both, and how many frames after its own an output sees."""
        super().__init__()
        self.past, self.future, self.right = past, future, options["right"]
        self.context = Context(0, self.right, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[frames, …, inputs] to [frames − right, …, outputs of both]."""
        past = self.past(self.context.frame_of_outputs(x))
        windows = torch.stack([self.context.frame_of_outputs(x, k) for k in range(self.right, -1, -1)])
        future = self.future(windows.flatten(1, -2))[-1]
        return torch.cat([past, future.reshape(*past.shape[:-1], -1)], dim=-1)

    def options(self) -> dict[str, Any]:
        """How many frames an output sees."""
        return {"right": self.right}

    def chains(self) -> dict[str, nn.Sequential]:
        """Both."""
        return {"past.": self.past, "future.": self.future}
