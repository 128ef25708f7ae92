"""What stand-ins for services share: each call is a line of JSON in the file that FAKE_SERVICES names.
FAKE_SERVICES_PIPE is a file descriptor that hears of each record; a call that FAKE_SERVICES_FAILS names fails."""

import json
import os


def calls():
    """All so far, whoever made them."""
    with open(os.environ["FAKE_SERVICES"], encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def note(call, **about):
    """One more."""
    if call == os.environ.get("FAKE_SERVICES_FAILS"):
        raise ConnectionError(f"{call}: no such server")
    with open(os.environ["FAKE_SERVICES"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"call": call, **about}) + "\n")
    if call == "log" and "FAKE_SERVICES_PIPE" in os.environ:
        os.write(int(os.environ["FAKE_SERVICES_PIPE"]), b".")
