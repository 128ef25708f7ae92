"""What can go wrong, as classes."""

import errno
import os
import re
from typing import Optional


class Error(RuntimeError):
    """Any error of Antiphon. Its text reads from what was asked for down to the cause."""


class UsageError(Error, ValueError):
    """A call, an option or a setting that cannot be: another one will do."""


class InputError(Error, ValueError):
    """What was given is damaged or does not fit together: a file, samples, an array."""


class FileError(Error, OSError):
    """The operating system refused: disk full, no permission. Its errno and filename are set where the text names them;
    it is a FileNotFoundError or a PermissionError, too, where it says so."""

    def __init__(self, *args: object) -> None:
        """`args`: the text."""
        super().__init__(*args)
        self.errno, self.strerror, self.filename = _cause(str(self))

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # OSError would put its own together


class MissingFileError(FileError, FileNotFoundError):
    """A FileError of a file that is not there."""


class DeniedFileError(FileError, PermissionError):
    """A FileError of a file that others alone may use."""


class PeerError(Error):
    """Another process or device failed."""


class DivergenceError(Error):
    """A training that cannot go on."""


class Cancelled(Error):
    """Somebody asked to stop."""


class OutOfMemoryError(Error, MemoryError):
    """Out of memory."""


class InternalError(Error):
    """A bug in Antiphon."""


BY_KIND: dict[str, type[Error]] = {
    "usage": UsageError,
    "input": InputError,
    "io": FileError,
    "peer": PeerError,
    "divergence": DivergenceError,
    "cancelled": Cancelled,
    "memory": OutOfMemoryError,
    "internal": InternalError,
}

_CLASS_OF_CAUSE: dict[Optional[int], type[FileError]] = {
    errno.ENOENT: MissingFileError,
    errno.EACCES: DeniedFileError,
    errno.EPERM: DeniedFileError,
}
_REASONS = {os.strerror(code): code for code in errno.errorcode}
# As the library says it, and as the C++ library does.
_SAID = (re.compile(r"cannot [\w ]+ '(?P<path>.*?)'(?: to '.*')?: (?P<reason>[^;]*)"),
         re.compile(r"filesystem error: [^:]*: (?P<reason>.*?) \[(?P<path>.*?)\]"))


def _cause(text: str) -> tuple[Optional[int], Optional[str], Optional[str]]:
    """errno, its text and the file, of the innermost cause that names them."""
    for said in _SAID:
        for found in reversed(list(said.finditer(text))):
            reason, path = found["reason"].strip(), found["path"]
            if reason in _REASONS:
                # Where bytes of the name are no text, the name is not known.
                return _REASONS[reason], reason, None if "\ufffd" in path else path
    return None, None, None


def made(kind: str, text: str) -> Error:
    """The error of this kind: the compiled module asks for it."""
    error = BY_KIND[kind](text)
    return _CLASS_OF_CAUSE.get(error.errno, FileError)(text) if isinstance(error, FileError) else error
