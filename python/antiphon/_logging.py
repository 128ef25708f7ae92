"""What the library says on its way, to Python's logging."""

import atexit
import logging
import threading

from . import _core

LOGGER = logging.getLogger("antiphon")
LOGGER.addHandler(logging.NullHandler())

_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING)


def _pass_on() -> None:
    # In a thread of its own: who writes to the log may hold locks, and must not wait for Python's.
    while True:
        messages = _core.next_messages()
        if not messages:
            return
        for level, text in messages:
            LOGGER.log(_LEVELS[level], "%s", text)


def start() -> None:
    """From now on the logger "antiphon" hears what the library says, as long as the interpreter runs."""
    _core.open_log()
    thread = threading.Thread(target=_pass_on, name="antiphon-log", daemon=True)
    thread.start()

    def stop() -> None:
        _core.close_log()
        thread.join(5)

    atexit.register(stop)
