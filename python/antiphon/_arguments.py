"""Checks of what a caller gives, so that the compiled module meets nothing that it does not expect."""

import errno
import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, Union, cast

import numpy as np
import numpy.typing as npt

from ._errors import InputError, UsageError

PathLike = Union[str, os.PathLike[str]]
Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]


class SupportsDlpack(Protocol):
    """An array of another library, such as PyTorch."""

    def __dlpack__(self) -> Any:
        """By which it is shared without a copy."""


class SupportsArray(Protocol):
    """What NumPy can make an array of."""

    def __array__(self) -> "np.ndarray[Any, Any]":
        """That array."""


Samples = Union[npt.NDArray[Any], SupportsDlpack, SupportsArray, Sequence[float]]
"""One channel of sound: floats in -1 … 1, or int16."""
Audio = Union[PathLike, bytes, bytearray, memoryview, Samples]
"""The path of a file, its contents, or samples, which need their rate."""

WHOLE_FILE = (bytes, bytearray, memoryview)
"""What a file's contents may be."""

# Sound in floats may overshoot full scale, but not so far; 16-bit numbers do as soon as anything is heard.
_LOUDEST = 16.0

INT32, INT64, UINT64 = (-2**31, 2**31 - 1), (-2**63, 2**63 - 1), (0, 2**64 - 1)
"""What the library's whole numbers may be: as a rule the first, of places the second, of seeds the third."""


def path_text(path: PathLike, what: str) -> str:
    """The path as text; TypeError for what is none."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str):
        raise TypeError(f"{what}: expected a path (str or os.PathLike), not {type(path).__name__}")
    if not text:
        raise InputError(f"{what}: the path is empty")
    return encodable(text, what)


def encodable(value: str, what: str) -> str:
    """The text; InputError for what no bytes stand for. Bytes that are not UTF-8 come as Python has them in paths."""
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InputError(f"{what}: character {error.start} is half of a surrogate pair, which is no text") from None
    return value


def checked_text(value: object, what: str) -> str:
    """The text; TypeError for what is none."""
    if not isinstance(value, str):
        raise TypeError(f"{what}: expected str, not {type(value).__name__}")
    return encodable(value, what)


def existing(path: PathLike, what: str) -> str:
    """The path as text; FileNotFoundError if nothing is there."""
    text = path_text(path, what)
    if not os.path.exists(text):
        raise FileNotFoundError(errno.ENOENT, f"{what}: no such file or folder", text)
    return text


def existing_or_remote(path: PathLike, what: str) -> str:
    """The same, for what may lie on a server."""
    text = path_text(path, what)
    return text if text.lower().startswith(("http://", "https://", "s3://")) else existing(text, what)


def whole_number(value: object, what: str, limits: tuple[int, int] = INT32) -> int:
    """The number as an int; TypeError for what is no whole number, UsageError for one beyond the limits."""
    try:
        number = cast(int, value.__index__())  # type: ignore[attr-defined]
    except (AttributeError, TypeError):  # the second of arrays
        raise TypeError(f"{what}: expected a whole number, not {type(value).__name__}") from None
    if not limits[0] <= number <= limits[1]:
        raise UsageError(f"{what}: expected a whole number from {limits[0]} to {limits[1]}, not {number}")
    return number


def require_list(value: object, what: str, expected: str, kind: type = Iterable) -> None:
    """TypeError for what is none; a text is none, though it can be walked over."""
    if isinstance(value, (str, bytes)) or not isinstance(value, kind):
        raise TypeError(f"{what}: expected {expected}, not {type(value).__name__}")


def require_function(value: object, what: str) -> None:
    """TypeError for what cannot be called; None will do."""
    if value is not None and not callable(value):
        raise TypeError(f"{what}: expected a function, not {type(value).__name__}")


def channel_of_file(rate: object, channel: object) -> int:
    """The channel of a file to hear, -1: the mean of all; UsageError if a rate was given as well."""
    if rate is not None:
        raise UsageError("rate: a file says itself what its rate is")
    return -1 if channel is None else whole_number(channel, "channel")


def thread_count(value: object) -> int:
    """`threads`: 0 for all cores."""
    return whole_number(value, "threads", (0, 4096))


def real_number(value: Any, what: str) -> float:
    """The number as a float; TypeError for what is none, UsageError for NaN and what is too large."""
    if isinstance(value, str) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"{what}: expected a number, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise UsageError(f"{what}: expected a number that fits into 64 bits, not {value}") from None
    except (TypeError, ValueError):  # of arrays
        raise TypeError(f"{what}: expected a number, not {type(value).__name__}") from None
    if number != number:
        raise UsageError(f"{what}: expected a number, not NaN")
    return number


def _array(values: Any, what: str) -> "np.ndarray[Any, Any]":
    """What has DLPack or the array interface, without a copy."""
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack__"):
        return np.asarray(values)
    try:
        return np.from_dlpack(values)
    except (RuntimeError, BufferError) as error:
        raise TypeError(f"{what}: expected numbers that NumPy has, in the memory of this machine and without a "
                        f"gradient (of PyTorch: .detach().cpu().float()): {error}") from None


def floats(values: Any, dimensions: int, what: str) -> Floats:
    """A C-contiguous float32 array, without a copy where it is one. Takes what has DLPack or the array interface."""
    array = _array(values, what)
    if not np.issubdtype(array.dtype, np.floating):
        raise TypeError(f"{what}: expected an array of floats, not of {array.dtype}")
    if array.ndim != dimensions:
        raise InputError(f"{what}: expected {dimensions} dimension(s), not shape {array.shape}")
    with np.errstate(over="ignore"):
        given, array = array, np.require(array, np.float32, ["C", "A"])
    if not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InputError(f"{what}: expected finite numbers of 32 bits, found {given[tuple(place)]} at {place}")
    return array


def samples(values: Samples, what: str = "samples", depth: int = 1) -> Floats:
    """One channel of sound as floats in -1 … 1; 16-bit whole numbers are brought to that scale. Floats that cannot be
    on it bring a warning, for the caller from whom `depth` functions lead here."""
    array = _array(values, what)
    if array.dtype == np.int16:
        return floats(array.astype(np.float32) / np.float32(32768), 1, what)
    if not np.issubdtype(array.dtype, np.floating):
        raise TypeError(f"{what}: expected floats in -1 … 1 or int16, not {array.dtype}")
    given = floats(array, 1, what)
    loudest = max(given.max(), -given.min()) if given.size else 0.0
    if loudest > _LOUDEST:
        warnings.warn(f"{what}: expected floats in -1 … 1, found up to {loudest:g}: give 16-bit numbers as int16, or "
                      "divide them by 32768", stacklevel=depth + 2)
    return given


def samples_and_rate(audio: Any, rate: object, channel: object) -> tuple[Floats, int]:
    """Audio that is no file: samples and their rate."""
    if not hasattr(audio, "__array__") and not hasattr(audio, "__dlpack__") and not isinstance(audio, Sequence):
        raise TypeError("audio: expected the path of a file, its contents as bytes, or an array of samples with their "
                        f"rate, not {type(audio).__name__}")
    if channel is not None:
        raise UsageError("channel: samples are one channel; choose it before")
    if rate is None:
        raise TypeError("rate: samples need their sampling rate in Hz")
    return samples(audio, depth=2), whole_number(rate, "rate")
