"""Checks of what a caller gives, so that the compiled module meets nothing that it does not expect."""

import errno
import os
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from ._errors import InputError

PathLike = Union[str, "os.PathLike[str]"]
Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]


def path_text(path: PathLike, what: str) -> str:
    """The path as text; TypeError for what is none."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str):
        raise TypeError(f"{what}: expected a path (str or os.PathLike), not {type(path).__name__}")
    if not text:
        raise InputError(f"{what}: the path is empty")
    return text


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


def is_bundle(path: str) -> bool:
    """Whether the path is what `antiphon bundle` made, a file or a folder."""
    return path.endswith(".antiphon") or os.path.isfile(os.path.join(path, "card.json"))


def model_file(path: str) -> str:
    """The path, or the model in the folder that a recipe left there; FileNotFoundError if it has none."""
    if is_bundle(path) or not os.path.isdir(path):
        return path
    for name in ("model.safetensors", os.path.join("network", "model.safetensors")):
        file = os.path.join(path, name)
        if os.path.isfile(file):
            return file
    raise FileNotFoundError(errno.ENOENT,
                            "model: the folder has neither model.safetensors nor network/model.safetensors", path)


def whole_number(value: object, what: str) -> int:
    """The number as an int; TypeError for what is no whole number."""
    try:
        return value.__index__()  # type: ignore[attr-defined, no-any-return]
    except AttributeError:
        raise TypeError(f"{what}: expected a whole number, not {type(value).__name__}") from None


def floats(values: Any, dimensions: int, what: str) -> Floats:
    """A C-contiguous float32 array, without a copy where it is one. Takes what has DLPack or the array interface."""
    if not isinstance(values, np.ndarray) and hasattr(values, "__dlpack__"):
        values = np.from_dlpack(values)
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.floating):
        raise TypeError(f"{what}: expected an array of floats, not of {array.dtype}")
    if array.ndim != dimensions:
        raise InputError(f"{what}: expected {dimensions} dimension(s), not shape {array.shape}")
    array = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InputError(f"{what}: expected finite numbers, found {array[tuple(place)]} at {place}")
    return array


def samples(values: Any, what: str = "samples") -> Floats:
    """One channel of sound as floats in -1 … 1; 16-bit whole numbers are brought to that scale."""
    if not isinstance(values, np.ndarray) and hasattr(values, "__dlpack__"):
        values = np.from_dlpack(values)
    array = np.asarray(values)
    if array.dtype == np.int16:
        array = array.astype(np.float32) / np.float32(32768)
    if not np.issubdtype(array.dtype, np.floating):
        raise TypeError(f"{what}: expected floats in -1 … 1 or int16, not {array.dtype}")
    return floats(array, 1, what)
