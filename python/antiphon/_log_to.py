"""Metrics of a training to services that keep them, by their own Python packages."""

import contextlib
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Union

from ._arguments import checked_text
from ._errors import UsageError

Record = dict[str, Any]


class _Target:
    """Takes records until `close`, which is told how the training ended: "FINISHED", "FAILED" or "KILLED" (by
    Ctrl-C)."""

    def write(self, record: Record) -> None:
        raise NotImplementedError

    def close(self, ending: str) -> None:
        raise NotImplementedError


def _numbers(record: Record) -> dict[str, float]:
    # An epoch's mean stands beside its last step, and must not take its place.
    prefixes = {"finish": "final_", "epoch": "epoch_"}
    prefix = prefixes.get(record["kind"], "")
    return {name if name.startswith("held_out") and record["kind"] == "epoch" else prefix + name: value
            for name, value in record.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool) and name not in ("step", "steps")}


def _step(record: Record) -> int:
    return int(record.get("steps" if record["kind"] == "finish" else "step", 0))


class _Wandb(_Target):
    def __init__(self, folder: str, out: str, parameters: Record) -> None:
        import wandb

        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        self.run: Any = wandb.init(project="antiphon", name=os.path.basename(os.path.normpath(out)), dir=folder,
                                   mode="offline", config=parameters,
                                   settings=wandb.Settings(silent=True, console="off"))

    def write(self, record: Record) -> None:
        if record["kind"] != "event":
            self.run.log(_numbers(record), step=_step(record))

    def close(self, ending: str) -> None:
        self.run.finish(exit_code=0 if ending == "FINISHED" else 1)


class _Mlflow(_Target):
    def __init__(self, uri: str, out: str, parameters: Record) -> None:
        from mlflow.tracking import MlflowClient

        self.client: Any = MlflowClient(tracking_uri=uri)
        experiment = self.client.get_experiment_by_name("antiphon")
        number = self.client.create_experiment("antiphon") if experiment is None else experiment.experiment_id
        self.run = self.client.create_run(number, run_name=os.path.basename(os.path.normpath(out))).info.run_id
        for name, value in parameters.items():
            self.client.log_param(self.run, name, str(value)[:500])

    def write(self, record: Record) -> None:
        if record["kind"] != "event":
            for name, value in _numbers(record).items():
                self.client.log_metric(self.run, name, value, step=_step(record))

    def close(self, ending: str) -> None:
        self.client.set_terminated(self.run, status=ending)


def split_targets(targets: Union[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """Those that the library writes itself, and those that need a package of the service's."""
    if not isinstance(targets, Sequence):
        raise TypeError(f"log_to: expected str or several of them, not {type(targets).__name__}")
    all_of = [checked_text(target, "log_to") for target in ([targets] if isinstance(targets, str) else targets)]
    services = [target for target in all_of
                if target.startswith("wandb:") or (target.startswith("mlflow:") and "://" in target)]
    return [target for target in all_of if target not in services], services


def _open(target: str, out: str, parameters: Record) -> _Target:
    """UsageError if the service's package is not installed."""
    service, _, where = target.partition(":")
    if not where:
        raise UsageError(f"log_to: {target!r} names no place: expected 'wandb:FOLDER' or 'mlflow:http://HOST:PORT'")
    plain = json.loads(json.dumps(parameters, default=str))
    try:
        return _Wandb(where, out, plain) if service == "wandb" else _Mlflow(where, out, plain)
    except ImportError as missing:
        raise UsageError(f"log_to: {target!r} needs the package {service}: pip install {service}") from missing


@contextlib.contextmanager
def opened(services: Sequence[str], out: str, parameters: Record) -> Iterator[Callable[[Record], None]]:
    """What writes a record to all of the targets that split_targets named as services'. They are told of the end."""
    with contextlib.ExitStack() as stack:
        ending = ["FAILED"]
        targets = []
        for service in services:
            target = _open(service, out, parameters)
            targets.append(target)
            stack.callback(lambda one: one.close(ending[0]), target)

        def write(record: Record) -> None:
            for target in targets:
                target.write(record)

        try:
            yield write
            ending[0] = "FINISHED"
        except KeyboardInterrupt:
            ending[0] = "KILLED"
            raise
