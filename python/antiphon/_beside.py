"""`antiphon train --log-to` with services that have Python packages: the program trains, and what it writes is sent
from here, beside it."""

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, Optional

from ._errors import Error
from ._log_to import Follower, split_targets
from ._toml import toml_table, toml_value

_SECONDS_BETWEEN_LOOKS = 1.0
# By which ranks of a job know themselves: one of them sends.
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_STOPPED_ON_REQUEST = 3


def _given(arguments: Sequence[str], option: str) -> list[str]:
    """The values of an option, as often as it is there."""
    following = zip(arguments, [*arguments[1:], ""])
    return [word.partition("=")[2] if "=" in word else after for word, after in following
            if word == f"--{option}" or word.startswith(f"--{option}=")]


def _without(arguments: Sequence[str], option: str) -> list[str]:
    left, skip = [], False
    for word in arguments:
        if not skip and word != f"--{option}" and not word.startswith(f"--{option}="):
            left.append(word)
        skip = not skip and word == f"--{option}"
    return left


def _value(text: str) -> Any:
    """As behind --set: TOML, or text."""
    try:
        return toml_table(f"value = {text}")["value"]
    except ValueError:
        return text


def _settings(arguments: Sequence[str]) -> dict[str, Any]:
    """What the command line says: a file, what is set over it, flags over both."""
    found: dict[str, Any] = {}
    for file in _given(arguments, "config")[-1:]:
        try:
            found = toml_table(pathlib.Path(file).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            pass  # the program says what is wrong
    for assignment in _given(arguments, "set"):
        key, _, text = assignment.partition("=")
        found[key] = _value(text)
    for file in _given(arguments, "out")[-1:]:
        found["out"] = file
    flags = _given(arguments, "log-to")
    if flags:
        whole = _value(flags[0]) if len(flags) == 1 else None
        found["log-to"] = whole if isinstance(whole, list) else [part for flag in flags for part in flag.split(",")]
    return found


def divided(arguments: Sequence[str]) -> tuple[list[str], list[str], str]:
    """A command line of `antiphon`: what the program is told, the services that it does not know, and the run's folder.
    No services: nothing is to be done here."""
    settings = _settings(arguments) if arguments[:1] == ["train"] else {}
    targets, out = settings.get("log-to", []), settings.get("out", "")
    targets = [targets] if isinstance(targets, str) else targets
    if not isinstance(out, str) or not isinstance(targets, list) or not all(isinstance(one, str) for one in targets):
        return list(arguments), [], ""
    own, services = split_targets(targets)
    if not services or not out:
        return list(arguments), [], ""
    return [*_without(arguments, "log-to"), "--log-to", toml_value(own, "log-to")], services, out


def _look(file: pathlib.Path) -> Optional[tuple[int, int, int]]:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class _Sender:
    """Sends to one service; where that fails, it says so and leaves off: the training goes on."""

    def __init__(self, run: str, target: str) -> None:
        self.follower: Optional[Follower] = Follower(run, target)

    def do(self, action: Any) -> None:
        """Calls action(follower)."""
        if self.follower is None:
            return
        try:
            action(self.follower)
        except Exception as error:  # of somebody else's package
            print(f"antiphon: warning: {self.follower.target}: {error}; the training goes on without it. What is "
                  f"missing, python -m antiphon.log_to '{self.follower.run}' '{self.follower.target}' sends",
                  file=sys.stderr)
            self.follower = None


class _Program:
    """The program, in a session of its own: it gets each signal once, from here, also one that was sent to all processes
    of this one's group. The second SIGINT or SIGTERM would end it without saving."""

    def __init__(self, words: Sequence[str]) -> None:
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._early: list[int] = []
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
            # Who started this with nohup wants it to outlive the terminal.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._pass_on)
        self._process = process = subprocess.Popen(words, start_new_session=True)
        for early in self._early:
            process.send_signal(early)
        self.process = process

    def _pass_on(self, number: int, _: Optional[FrameType]) -> None:
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)


def run(program: str, arguments: Sequence[str], services: Sequence[str], out: str) -> int:
    """Trains, and sends to the services meanwhile; the exit status of the program."""
    if any(os.environ.get(name, "0") not in ("", "0") for name in _RANKS):
        os.execv(program, [program, *arguments])
    try:
        senders = [_Sender(out, service) for service in services]
    except (Error, OSError) as error:
        print(f"antiphon: error: {error}", file=sys.stderr)
        return 2
    metrics = pathlib.Path(out) / "metrics.jsonl"
    before = _look(metrics)  # of an earlier training, until this one writes

    def send() -> None:
        if _look(metrics) != before:
            for sender in senders:
                sender.do(Follower.catch_up)

    process = _Program([program, *arguments]).process
    while process.poll() is None:
        try:
            process.wait(_SECONDS_BETWEEN_LOOKS)
        except subprocess.TimeoutExpired:
            send()
    send()
    ending = {0: "FINISHED", _STOPPED_ON_REQUEST: "KILLED"}.get(process.returncode, "FAILED")
    for sender in senders:
        sender.do(lambda follower: follower.close(ending))
    return process.returncode if process.returncode >= 0 else 128 - process.returncode
