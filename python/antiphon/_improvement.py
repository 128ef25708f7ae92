"""Models made smaller, and models made good on other speech."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Optional

from . import _core
from ._arguments import UINT64, PathLike, existing, path_text, checked_text, thread_count, whole_number
from ._core import CancelToken
from ._keywords import AdapterKeywords, CompressorKeywords, named
from ._settings import token
from ._toml import toml_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

CompressionMethod = Literal["binarize", "circulant", "multiframe", "prune", "prune-nodes", "quantize", "student", "svd"]
AdaptationMethod = Literal["adversarial", "fmllr", "kld", "lhn", "lhuc", "lin", "mix", "transfer"]


def _with_common(settings: Any, model: PathLike, method: str, held_out_store: Optional[PathLike], config: str,
                 options: Mapping[str, Any], seed: int, threads: int) -> Any:
    """The settings with what both kinds of work take."""
    settings.model = existing(model, "model")
    settings.method = checked_text(method, "method")
    settings.held_out_store = _optional_store(held_out_store, "held_out_store")
    settings.config = toml_options(options) + checked_text(config, "config")
    settings.seed = whole_number(seed, "seed", UINT64)
    settings.threads = thread_count(threads)
    return settings


def _optional_store(store: Optional[PathLike], name: str) -> str:
    return "" if store is None else existing(store, name)


@dataclass(frozen=True)
class CompressionStage:
    """A model at one stage of its compression."""

    parameters: int
    """Trained values."""
    bytes: int
    """Of the network, as in the file."""
    held_out_loss: float
    """Nats per frame."""
    held_out_accuracy: float
    """Of frames."""


@dataclass(frozen=True)
class CompressionResult:
    """What a compression left."""

    model: str
    """The model file."""
    before: CompressionStage
    """The model as it was."""
    compressed: CompressionStage
    """By the method alone."""
    retrained: CompressionStage
    """As `compressed` without retraining."""


class Compressor:
    """Makes a model smaller and faster by one method, as `antiphon compress --method` does.

        antiphon.Compressor("exp/net/model.safetensors", "svd", store="exp/store", svd={"energy": 0.8}).run("exp/svd")
    """

    @named(CompressorKeywords)
    def __init__(self, model: PathLike, method: CompressionMethod, *, store: Optional[PathLike] = None,
                 held_out_store: Optional[PathLike] = None, config: str = "", seed: int = 1, threads: int = 0,
                 **options: "Unpack[CompressorKeywords]") -> None:
        """`method`: "svd", "prune", "quantize" … (`antiphon compress --method list`). `store`: the frame store for
        statistics, retraining and measuring; without it only what the method does without. `config`, `options`: as
        antiphon.train takes them, with the method's options in the table of its name.

        UsageError for a method or an option that there is not, InputError for a model file that is damaged."""
        settings = _core.CompressorSettings()
        settings.frame_store = _optional_store(store, "store")
        self._settings = _with_common(settings, model, method, held_out_store, config, options, seed, threads)
        _core.check_compression(self._settings)

    def run(self, out: PathLike, *, cancel: Optional[CancelToken] = None) -> CompressionResult:
        """Compresses into the folder `out`: model.safetensors, compression.json and what came before retraining.
        Ctrl-C ends it, and leaves no model; so does `cancel`, by which others end it with Cancelled."""
        self._settings.out = path_text(out, "out")
        found = _core.compress(self._settings, token(cancel))
        return CompressionResult(found.model_file, CompressionStage(*found.before),
                                 CompressionStage(*found.compressed), CompressionStage(*found.retrained))


@dataclass(frozen=True)
class AdaptationMeasures:
    """How good a model is on some speech."""

    loss: float
    """Nats per frame."""
    accuracy: float
    """Of frames."""
    frames: float
    """Measured on; 0: there was nothing to measure."""


@dataclass(frozen=True)
class AdaptationResult:
    """What an adaptation left."""

    accepted: bool
    """Otherwise the model is as it was."""
    verdict: str
    """Why, in a sentence."""
    model: str
    """The model file."""
    profile: str
    """A speaker's file, of methods that make one; usually empty."""
    new_before: AdaptationMeasures
    """The old model on the new speech."""
    new_after: AdaptationMeasures
    """The adapted one on it."""
    old_before: AdaptationMeasures
    """The old model on its own speech."""
    old_after: AdaptationMeasures
    """The adapted one on it."""


class Adapter:
    """Makes a model good on other speech without forgetting what it knew, as `antiphon adapt --store` does.

        adapter = antiphon.Adapter("exp/net/model.safetensors", store="exp/mine/store", old_store="exp/store")
        result = adapter.run("exp/mine/net")
        print(result.verdict, result.model)
    """

    @named(AdapterKeywords)
    def __init__(self, model: PathLike, *, store: PathLike, old_store: Optional[PathLike] = None,
                 held_out_store: Optional[PathLike] = None, hmm: Optional[PathLike] = None,
                 method: AdaptationMethod = "kld", config: str = "", seed: int = 1, threads: int = 0,
                 **options: "Unpack[AdapterKeywords]") -> None:
        """`store`: the frame store of the aligned speech to adapt to. `old_store`: the one that the model was trained
        on, to see what it forgets. `held_out_store`: to measure on; None: a part of `store`. `hmm`: the model whose
        states the labels are; None: the model's own. `method`, `config`, `options`: as Compressor's."""
        settings = _core.AdapterSettings()
        settings.frame_store = existing(store, "store")
        settings.old_store = _optional_store(old_store, "old_store")
        settings.hmm = "" if hmm is None else existing(hmm, "hmm")
        self._settings = _with_common(settings, model, method, held_out_store, config, options, seed, threads)
        _core.check_adaptation(self._settings)

    def run(self, out: PathLike, *, cancel: Optional[CancelToken] = None) -> AdaptationResult:
        """Adapts into the folder `out`: model.safetensors, adapted.safetensors, adaptation.json, report.html. Ctrl-C
        ends it, and leaves no model; so does `cancel`, by which others end it with Cancelled."""
        self._settings.out = path_text(out, "out")
        found = _core.adapt(self._settings, token(cancel))
        return AdaptationResult(found.accepted, found.verdict, found.model_file, found.profile_file,
                                AdaptationMeasures(*found.new_before), AdaptationMeasures(*found.new_after),
                                AdaptationMeasures(*found.old_before), AdaptationMeasures(*found.old_after))
