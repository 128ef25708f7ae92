"""Sends the metrics of a training to MLflow or Weights & Biases, while it runs or afterwards.

On the command line: python -m antiphon.log_to RUN TARGET.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Optional

from ._arguments import existing
from ._errors import Error, UsageError
from ._log_to import Follower

_SECONDS_BETWEEN_LOOKS = 2.0


def send(run: str, targets: Sequence[str], once: bool = False) -> bool:
    """Sends the metrics of the run in the folder `run` that the targets lack, and what is written until it has
    finished; with `once` what is there. Whether it has finished. What was sent before, by this or by the training
    itself, is not sent again.

    `targets`: "wandb:FOLDER", "mlflow:http://HOST:PORT", as antiphon.train takes them; "mlflow:FOLDER", too.
    """
    followers = [Follower(existing(run, "run"), target) for target in targets]
    ending = "RUNNING"
    try:
        while True:
            finished = [follower.catch_up() for follower in followers]
            if all(finished):
                ending = "FINISHED"
            if once or all(finished):
                return all(finished)
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    finally:
        for follower in followers:
            follower.close(ending)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m antiphon.log_to", description=(
        "Sends what a training writes to services, each record once: what is there, and more until it has finished."))
    parser.add_argument("run", metavar="RUN", help="folder of the training, which has metrics.jsonl")
    parser.add_argument("targets", metavar="TARGET", nargs="+",
                        help="wandb:FOLDER (offline), mlflow:http://HOST:PORT or mlflow:FOLDER")
    parser.add_argument("--once", action="store_true", help="send what is there, and do not wait for more")
    given = parser.parse_args(arguments)
    try:
        send(given.run, given.targets, given.once)
    except KeyboardInterrupt:
        return 3
    except (Error, OSError) as error:
        print(f"antiphon.log_to: error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
