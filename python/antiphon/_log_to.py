"""Metrics of a training to services that keep them, by their own Python packages.

A run's metrics.jsonl is what is sent, whoever trains: each record once. log_to.json in the run folder keeps what every
service has, so that a training that goes on, or a later call, continues the same run of the service.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import pathlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Union

from ._arguments import checked_text
from ._errors import Cancelled, InputError, UsageError
from ._toml import toml_table

Record = dict[str, Any]


class _Target:
    """A run of a service; `id` names it there. Takes records until `close`, which is told how the training ended:
    "FINISHED", "FAILED", "KILLED" (on request) or "RUNNING" (it has not: more may come later)."""

    id: str

    def __init__(self, where: str, run: pathlib.Path, known: str) -> None:
        """`known`: the id of the run that is to go on; "": a new one."""
        raise NotImplementedError

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


def _name(run: pathlib.Path) -> str:
    return os.path.basename(os.path.normpath(run))


def _parameters(run: pathlib.Path) -> dict[str, Any]:
    """What the run was told, without its layers: "schedule.epochs" and so on."""
    found: dict[str, Any] = {}

    def add(table: Record, prefix: str) -> None:
        for key, value in table.items():
            if isinstance(value, dict):
                add(value, f"{prefix}{key}.")
            elif value != "":
                found[prefix + key] = value

    with contextlib.suppress(FileNotFoundError):
        table = toml_table((run / "config.toml").read_text(encoding="utf-8"))
        add({key: value for key, value in table.items() if key != "network"}, "")
    return found


class _Wandb(_Target):
    def __init__(self, where: str, run: pathlib.Path, known: str) -> None:
        import wandb

        pathlib.Path(where).mkdir(parents=True, exist_ok=True)
        self.id = known or secrets.token_hex(4)
        self.run: Any = wandb.init(project="antiphon", id=self.id, name=_name(run), dir=where, mode="offline",
                                   config=_parameters(run), settings=wandb.Settings(silent=True, console="off"))

    def write(self, record: Record) -> None:
        self.run.log(_numbers(record), step=_step(record))

    def close(self, ending: str) -> None:
        self.run.finish(exit_code=1 if ending in ("FAILED", "KILLED") else 0)


class _Mlflow(_Target):
    def __init__(self, where: str, run: pathlib.Path, known: str) -> None:
        from mlflow.entities import Metric
        from mlflow.tracking import MlflowClient

        self.metric: Any = Metric
        self.client: Any = MlflowClient(tracking_uri=where)
        self.id = known
        if known:
            self.client.update_run(known, status="RUNNING")
            return
        experiment = self.client.get_experiment_by_name("antiphon")
        number = self.client.create_experiment("antiphon") if experiment is None else experiment.experiment_id
        self.id = self.client.create_run(number, run_name=_name(run)).info.run_id
        for name, value in _parameters(run).items():
            self.client.log_param(self.id, name, str(value)[:500])

    def write(self, record: Record) -> None:
        now, step = int(time.time() * 1000), _step(record)
        metrics = [self.metric(name, value, now, step) for name, value in _numbers(record).items()]
        self.client.log_batch(self.id, metrics=metrics)  # whole, or not at all

    def close(self, ending: str) -> None:
        if ending != "RUNNING":
            self.client.set_terminated(self.id, status=ending)


def split_targets(targets: Union[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """Those that the library writes itself, and those that need a package of the service's."""
    if not isinstance(targets, Sequence):
        raise TypeError(f"log_to: expected str or several of them, not {type(targets).__name__}")
    all_of = [checked_text(target, "log_to") for target in ([targets] if isinstance(targets, str) else targets)]
    services = [target for target in all_of
                if target.startswith("wandb:") or (target.startswith("mlflow:") and "://" in target)]
    return [target for target in all_of if target not in services], services


def require(target: str) -> None:
    """UsageError for what names no place of a service, and if the service's package is not installed."""
    service, _, where = target.partition(":")
    if service not in ("wandb", "mlflow") or not where:
        raise UsageError(f"log_to: {target!r} names no place: expected 'wandb:FOLDER' or 'mlflow:http://HOST:PORT'")
    try:
        missing = importlib.util.find_spec(service) is None
    except ValueError:  # it was taken away
        missing = True
    if missing:
        raise UsageError(f"log_to: {target!r} needs the package {service}: pip install {service}")


class Follower:
    """Sends what a run writes to one service, each record once: steps that a training takes again, after a fall-back
    or from its last checkpoint on, as they were the first time. A training that begins anew in the same folder is
    another run of the service. One thread at a time."""

    def __init__(self, run: Union[str, "os.PathLike[str]"], target: str) -> None:
        """UsageError as `require`."""
        require(target)
        self.run, self.target = pathlib.Path(run), target
        self._target: Union[_Target, None] = None
        self._offset, self._last = 0, b""  # of metrics.jsonl: what was read, and its last line
        self._line = 0
        self._waiting: list[Record] = []
        self._began = ""  # what tells this training from others in the same folder
        self._finished = False
        self._has = self._kept()

    def catch_up(self) -> bool:
        """Sends what is there and was not sent; whether the run has finished."""
        for line in self._new_lines():
            self._line += 1
            record = self._record(line)
            # The first record that tells rates, which no two trainings have in common.
            if not self._began and record["kind"] in ("step", "epoch"):
                self._began = hashlib.sha256(line).hexdigest()[:16]
            self._waiting.append(record)
            self._finished = record["kind"] == "finish"
        if self._has.get("began") and not self._began and not self._finished:
            return False  # nothing tells yet whether it is the same training
        if self._waiting and (self._has.get("began") or self._began) != self._began:
            self._leave("KILLED")
            self._has = {}
        while self._waiting:
            self._send(self._waiting[0])
            self._waiting.pop(0)
        return self._finished

    def close(self, ending: str) -> None:
        """No more will come; how the training ended, as _Target.close has it."""
        self._leave(ending)

    def _leave(self, ending: str) -> None:
        target, self._target = self._target, None
        if target is not None:
            target.close(ending)

    def _record(self, line: bytes) -> Record:
        try:
            record = json.loads(line)
            if isinstance(record, dict) and isinstance(record.get("kind"), str) and \
                    isinstance(record.get("step", 0), int) and isinstance(record.get("steps", 0), int):
                return record
        except ValueError:
            pass
        raise InputError(f"{self.run / 'metrics.jsonl'}:{self._line}: expected a JSON object with \"kind\", as a "
                         "training writes them")

    def _new_lines(self) -> list[bytes]:
        """Whole lines that were not read yet; all of them, if the file does not go on as it was."""
        try:
            with open(self.run / "metrics.jsonl", "rb") as file:
                file.seek(max(0, self._offset - len(self._last)))
                if file.read(len(self._last)) != self._last:
                    file.seek(0)
                    self._offset, self._last, self._line, self._began = 0, b"", 0, ""
                    self._waiting.clear()
                    self._finished = False
                text = file.read()
        except FileNotFoundError:
            return []
        lines = text[:text.rfind(b"\n") + 1].splitlines(keepends=True)
        if lines:
            self._offset, self._last = self._offset + sum(map(len, lines)), lines[-1]
        return lines

    def _send(self, record: Record) -> None:
        if record["kind"] == "event":
            return
        place = " ".join([record["kind"], *(str(record[key]) for key in ("layer",) if key in record)])
        sent = self._has.setdefault("sent", {})
        before, step = sent.get(place, -1), _step(record)
        if step <= before:
            return
        if self._target is None:
            kind: type[_Target] = _Wandb if self.target.startswith("wandb:") else _Mlflow
            self._target = kind(self.target.partition(":")[2], self.run, self._has.get("run", ""))
        self._has |= {"run": self._target.id, "began": self._began}
        # Noted before: who is killed between the two leaves one record out, and sends none twice.
        sent[place] = step
        self._keep()
        try:
            self._target.write(record)
        except BaseException:
            sent[place] = before
            self._keep()
            raise

    def _kept(self) -> dict[str, Any]:
        try:
            kept = dict(json.loads((self.run / "log_to.json").read_text(encoding="utf-8"))[self.target])
            if not all(isinstance(kept.get(key, ""), str) for key in ("run", "began")) or \
                    not all(isinstance(step, int) for step in kept.get("sent", {}).values()):
                raise ValueError("expected the texts run and began, and sent with whole numbers")
            return kept
        except (FileNotFoundError, KeyError):
            return {}
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{self.run / 'log_to.json'}: damaged; remove it, and all is sent as another run: "
                             f"{error}") from None

    def _keep(self) -> None:
        file = self.run / "log_to.json"
        kept: dict[str, Any] = {}
        with contextlib.suppress(FileNotFoundError, ValueError):
            kept = json.loads(file.read_text(encoding="utf-8"))
        unfinished = file.with_name(f"log_to.json.{os.getpid()}")
        unfinished.write_text(json.dumps({**kept, self.target: self._has}, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(file)


@contextlib.contextmanager
def following(services: Sequence[str], run: str) -> Iterator[Callable[[], None]]:
    """What sends to all of the targets that split_targets named as services' what a training has just written into its
    folder. They are told of the end."""
    followers = [Follower(run, service) for service in services]
    with contextlib.ExitStack() as stack:
        ending = ["FAILED"]
        for follower in followers:
            stack.callback(lambda one: one.close(ending[0]), follower)

        def catch_up() -> None:
            for follower in followers:
                follower.catch_up()

        try:
            yield catch_up
            ending[0] = "FINISHED"
        except (KeyboardInterrupt, Cancelled):
            ending[0] = "KILLED"
            raise
