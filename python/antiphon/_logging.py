"""What the library says on its way, to Python's logging."""

import atexit
import logging
import os
import sys
import threading
import traceback
from typing import Optional

from . import _core

LOGGER = logging.getLogger("antiphon")
LOGGER.addHandler(logging.NullHandler())

_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING)
_thread: Optional[threading.Thread] = None


def _pass_on() -> None:
    # In a thread of its own: who writes to the log may hold locks, and must not wait for Python's.
    while True:
        messages = _core.next_messages()
        if not messages:
            return
        for level, text in messages:
            try:
                LOGGER.log(_LEVELS[level], "%s", text)
            except Exception:  # of somebody's handler, as logging treats those of its own
                if logging.raiseExceptions and sys.stderr:
                    traceback.print_exc()


def _listen() -> None:
    global _thread
    _thread = threading.Thread(target=_pass_on, name="antiphon-log", daemon=True)
    _thread.start()


def _listen_in_child() -> None:
    _core.renew_log()
    _listen()  # the thread stayed behind


def _stop() -> None:
    _core.close_log()
    if _thread is not None:
        _thread.join(5)


def start() -> None:
    """From now on the logger "antiphon" hears what the library says, as long as the interpreter runs."""
    _core.open_log()
    _listen()
    os.register_at_fork(after_in_child=_listen_in_child)
    atexit.register(_stop)
