"""What can go wrong, as classes."""


class Error(RuntimeError):
    """Any error of Antiphon. Its text reads from what was asked for down to the cause."""


class UsageError(Error, ValueError):
    """A call, an option or a setting that cannot be: another one will do."""


class InputError(Error, ValueError):
    """What was given is damaged or does not fit together: a file, samples, an array."""


class FileError(Error, OSError):
    """The operating system refused: disk full, no permission."""


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
