"""Trained networks."""

import os
import tempfile
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from . import _core
from ._arguments import Floats, PathLike, checked_text, existing, floats, path_text, whole_number
from ._errors import InputError
from ._store import FrameStore

if TYPE_CHECKING:
    import torch

    from ._torch import Network


class Model:
    """A trained network: what it is, and what it says about frames.

        model = antiphon.Model("exp/net/model.safetensors")
        scores = model.score(features)              # [frames, num_outputs]
        network = model.to_torch()                  # a torch.nn.Module that gives the same

    May be used by many threads at once.
    """

    def __init__(self, file: PathLike) -> None:
        """`file`: a model file, a bundle, or the folder of a recipe. FileNotFoundError if it is not there, InputError
        if it is damaged or no model."""
        self._file = existing(file, "model")
        self._core = _core.Model(self._file)

    def __repr__(self) -> str:
        return f"<antiphon.Model {self._file!r}: {self.feature_dim} values per frame, {self.num_outputs} states>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Model, (self._file,)  # as the file is where it is unpickled

    @property
    def file(self) -> str:
        """The model file, bundle or folder that it was read from."""
        return self._file

    @property
    def feature_dim(self) -> int:
        """Values per frame that `score` takes; neighbouring frames are spliced on inside."""
        return self._core.feature_dim

    @property
    def left_context(self) -> int:
        """Frames that are spliced on before the current one."""
        return self._core.left_context

    @property
    def right_context(self) -> int:
        """Frames that are spliced on after it."""
        return self._core.right_context

    @property
    def num_outputs(self) -> int:
        """Tied states."""
        return self._core.num_outputs

    @property
    def num_parameters(self) -> int:
        """Trained values."""
        return self._core.num_parameters

    @property
    def network(self) -> str:
        """The layers, as TOML."""
        return self._core.network

    @property
    def features(self) -> str:
        """The front end's options, as TOML for FrontEnd; "" if the model does not know them."""
        return self._core.features

    def score(self, features: Any) -> Floats:
        """log p(frame | state) up to a constant per frame: [frames, num_outputs]; of a chain model, whose states have
        one frame for several of the features, as many rows as that makes, rounded up.

        `features`: [frames, feature_dim] floats, normalised as in training. Other threads run meanwhile.
        """
        frames = floats(features, 2, "features")
        if frames.shape[1] != self.feature_dim:
            raise InputError(f"features: expected [frames, {self.feature_dim}], not shape {frames.shape}")
        return self._core.score(frames)

    def tensors(self) -> dict[str, Floats]:
        """The values by name ("affine1.weight" [outputs, inputs]); copies."""
        return {name: values for name, _, values in _core.ModelFile.read(self._file).take_tensors()}

    def to_torch(self) -> "Network":
        """A torch.nn.Module with this model's layers and values, to look at or to go on training with.

        Called with features [frames, feature_dim], it gives what `score` gives, whatever its layers are. Its `network`
        is the torch.nn.Sequential from spliced frames (as FrameStore.minibatches has them) to logits. What a layer does
        in training alone (masks, side tasks, constraints on weights) is not there, other than plain dropout; weights
        that are rounded to few bits stay as they are. Needs PyTorch.
        """
        from . import _torch

        return _torch.to_torch(_core.ModelFile.read(self._file))

    @staticmethod
    def from_torch(module: "torch.nn.Module", file: PathLike, *, store: Optional[Union[FrameStore, PathLike]] = None,
                   hmm: Optional[PathLike] = None, like: Optional["Model"] = None, feature_dim: int = 0,
                   left_context: int = 5, right_context: int = 5, description: str = "") -> "Model":
        """Writes a network of PyTorch as a model file that scores, decodes, compresses and adapts, and opens it.

        `module`: what `to_torch` gave, or a torch.nn.Sequential from spliced frames to logits, made of Linear, ReLU,
        Sigmoid, Tanh, Softmax, LogSoftmax, BatchNorm1d, Dropout and Identity (what does nothing when scoring is left
        out) and of layers that `to_torch` made, without hooks; subclasses of them are refused, and nothing is written
        that scores otherwise than the module. `like`: the model whose features, context, states and priors it shares
        (for what `to_torch` gave: the model that it was made of). Without `like`: `store`, the frame store that it was
        trained on, gives the priors, the features' dimension and the front end that made them; `hmm`, the model or
        bundle whose states the labels are, lets it decode; `left_context` and `right_context` are those of the
        minibatches.
        """
        from . import _torch

        target = path_text(file, "file")
        description = checked_text(description, "description")
        if like is not None:
            if not isinstance(like, Model):
                raise TypeError(f"like: expected a Model, not {type(like).__name__}")
            description_of = _core.ModelFile.read(like.file)
            description_of.take_tensors()
        else:
            description_of = _core.ModelFile()
            description_of.feature_dim = whole_number(feature_dim, "feature_dim")
            description_of.left_context = whole_number(left_context, "left_context")
            description_of.right_context = whole_number(right_context, "right_context")
        if store is not None:
            frames = store if isinstance(store, FrameStore) else FrameStore(store)
            if not frames.labelled:
                raise InputError("store: speech without alignment has no labels to count priors from; give the store "
                                 "that the network was trained on")
            description_of.feature_dim = frames.feature_dim
            description_of.features = frames.front_end
            counts = frames.count_labels().astype(np.float64)
            with np.errstate(divide="ignore"):
                description_of.log_priors = np.log(counts / counts.sum()).tolist()
        if hmm is not None:
            description_of.take_description(existing(hmm, "hmm"))
        description_of.descriptions = {"trained_by": description or "PyTorch"}
        _torch.put_into(module, description_of)
        with tempfile.TemporaryDirectory() as folder:
            unseen = os.path.join(folder, "model.safetensors")
            description_of.write(unseen)
            _torch.require_same(module, description_of, _core.Model(unseen))
        description_of.write(target)
        return Model(target)
