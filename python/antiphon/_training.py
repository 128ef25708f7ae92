"""Training of networks."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _core
from ._arguments import (UINT64, PathLike, existing, path_text, checked_text, require_function, require_list,
                         thread_count, whole_number)
from ._core import CancelToken
from ._keywords import TrainKeywords, named
from ._log_to import following, split_targets
from ._settings import token
from ._toml import toml_options

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class TrainingResult:
    """What a training left."""

    model: str
    """The model file."""
    report: str
    """The report, an HTML page."""
    frames: int
    """Learnt from."""
    held_out_accuracy: float
    """Of frames."""
    held_out_loss: float
    """Nats per frame."""
    frames_per_second: float
    """Learnt from, on the whole."""


@named(TrainKeywords)
def train(store: PathLike, out: PathLike, *, network: Optional[Sequence[Mapping[str, Any]]] = None,
          hmm: Optional[PathLike] = None, front_end: Optional[PathLike] = None, config: str = "", seed: int = 1,
          threads: int = 0, resume: bool = False, on_metrics: Optional[Callable[[dict[str, Any]], object]] = None,
          log_to: Union[str, Sequence[str]] = (), cancel: Optional[CancelToken] = None,
          **options: "Unpack[TrainKeywords]") -> TrainingResult:
    """Trains a network on a frame store: all that `antiphon train` does, with the same results.

        run = antiphon.train("exp/store", "exp/net", schedule={"epochs": 5}, on_metrics=print, network=[
            {"type": "affine", "dim": 512}, {"type": "relu"}, {"type": "affine"}])
        print(run.held_out_accuracy, run.model)

    `network`: the layers, from the bottom up. `hmm`: the model whose states the labels are, kept in the new model, so
    that it can decode. `front_end`: TOML file with the features' options. `config`: TOML with options of
    `antiphon train`, `options`: the same as keyword arguments, with underscores, tables as dicts (data, schedule,
    optimizer, parallel …). `threads`: 0 for all cores. `resume`: continues from the last checkpoint, bit for bit.

    `on_metrics` gets each record of the run's metrics.jsonl as a dict, with "kind" "start", "step", "epoch", "event" or
    "finish"; an exception that it raises ends the training and is raised here; the last checkpoint stays. Ctrl-C stops
    between two steps and saves everything first: `resume` continues from there. `cancel` does the same, with Cancelled:
    another thread may ask for it, or `on_metrics`.

    `log_to`: where the metrics go besides the run folder, which has TensorBoard's events: "mlflow:FOLDER" (a file store
    of MLflow, for which nothing need be installed), "mlflow:http://HOST:PORT" (needs mlflow), "wandb:FOLDER" (Weights &
    Biases, offline; needs wandb); one or several. With `resume` the service's run goes on, and gets no step twice.
    """
    stop = token(cancel)
    settings = _core.TrainerSettings()
    settings.frame_store = existing(store, "store")
    settings.run_folder = path_text(out, "out")
    settings.hmm = existing(hmm, "hmm") if hmm is not None else ""
    settings.front_end = existing(front_end, "front_end") if front_end is not None else ""
    require_function(on_metrics, "on_metrics")
    if network is not None:
        require_list(network, "network", "a list of layers", Sequence)
    tables = {"network": {"layer": list(network)}} if network is not None else {}
    given = {name: value for name, value in options.items() if value is not None}
    settings.config = toml_options({**given, **tables}) + checked_text(config, "config")
    settings.seed = whole_number(seed, "seed", UINT64)
    settings.threads = thread_count(threads)
    settings.resume = bool(resume)
    settings.log_to, services = split_targets(log_to)
    failures: list[Exception] = []

    def hear(text: str) -> bool:
        try:
            catch_up()
            if on_metrics is not None:
                on_metrics(json.loads(text))
            return True
        except Exception as failure:  # it is raised again below; Ctrl-C goes through the library, which saves all
            failures.append(failure)
            return False

    with following(services, settings.run_folder) as catch_up:
        try:
            result = _core.train(settings, hear, stop)
        except Exception:
            if failures:
                raise failures[0] from None
            raise
    return TrainingResult(result.model_file, result.report_file, result.frames, result.held_out_accuracy,
                          result.held_out_loss, result.frames_per_second)
