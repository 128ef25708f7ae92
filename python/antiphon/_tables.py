"""Kaldi tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Optional, Union

import numpy as np

from . import _core
from ._arguments import Floats, Integers, PathLike, existing, floats, path_text, checked_text, require_list
from ._errors import InputError, UsageError


def read_table(table: PathLike) -> Iterator[tuple[str, Union[Floats, Integers]]]:
    """Walks over a Kaldi table: (key, array) of each entry, in the order of the file, one in memory at a time.

        for utt_id, features in antiphon.read_table("feats.scp"): ...

    `table`: a path, where the ending .scp says script, or "ark:PATH", "scp:PATH". Matrices are float32 [rows, columns],
    vectors float32, lists of whole numbers (alignments) int32; text, binary, gzip and Kaldi's compressed matrices are
    recognised. InputError naming file, key and byte for what is damaged or not finite. Threads may share the iterator:
    each entry goes to one of them. Bytes of a key that are not UTF-8 come as Python has them in names of files
    (surrogateescape).
    """
    text = path_text(table, "table")
    kind, _, rest = text.partition(":")
    existing(rest if kind in ("ark", "scp") and rest else text, "table")
    return iter(_core.TableReader(text))


def _archive(path: PathLike) -> str:
    """The path of an archive to write, which may be called "ark:PATH"."""
    place = path_text(path, "ark")
    kind, colon, rest = place.partition(":")
    if colon and (kind == "scp" or kind.startswith(("ark,", "scp,"))):
        raise UsageError(f"ark: {place!r}: expected the path of an archive; `text` and `script` say how it is written")
    return path_text(rest, "ark") if colon and kind == "ark" else place


def write_table(ark: PathLike, entries: Union[Mapping[str, Any], Iterable[tuple[str, Any]]], *, text: bool = False,
                script: bool = True, coding: str = "plain") -> int:
    """Writes a Kaldi table of (key, array) pairs, all arrays of one kind, and returns how many there were.

    `ark`: the archive (a path, or "ark:PATH"), gzip if it ends in .gz; a script with the ending .scp is put beside it
    unless `script` is false. `entries`: pairs, or a dict. Arrays of floats with two dimensions become matrices, with
    one vectors; one-dimensional whole numbers int32 lists; an empty list is of the others' kind. A matrix without rows
    or without columns comes back as 0 x 0: Kaldi has no other. `coding`: of matrices, "plain" or Kaldi's compressed
    "columns8", "global16", "global8". Both files appear, whole, when all entries are written; an error leaves nothing.
    """
    settings = _core.TableSettings()
    settings.text, settings.script, settings.coding = bool(text), bool(script), checked_text(coding, "coding")
    writer = _Writer(_core.TableWriter(_archive(ark), settings))
    require_list(entries, "entries", "pairs of a key and its array")
    count = 0
    for pair in entries.items() if isinstance(entries, Mapping) else entries:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"entries: expected pairs of a key and its array, found {pair!r}")
        writer.write(checked_text(pair[0], "key"), pair[1])
        count += 1
    writer.close()
    return count


class _Writer:
    """Writes each value as its kind is. Empty lists have none: they wait for the first value that has."""

    def __init__(self, core: "_core.TableWriter") -> None:
        self._core = core
        self._kind: Optional[Callable[[str, "np.ndarray[Any, Any]"], None]] = None
        self._waiting: list[str] = []

    def write(self, key: str, value: Any) -> None:
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise InputError(f"'{key}': {error}") from None
        if not hasattr(value, "dtype") and array.size == 0:
            self._waiting.append(key)
            if self._kind is not None:
                self._write_waiting()
            return
        if np.issubdtype(array.dtype, np.integer) and array.ndim == 1:
            self._kind = self._integers
        elif array.ndim == 1:
            self._kind = self._vector
        else:
            self._kind = self._matrix
        self._write_waiting()
        self._kind(key, array)

    def close(self) -> None:
        self._kind = self._kind or self._vector
        self._write_waiting()
        self._core.close()

    def _write_waiting(self) -> None:
        assert self._kind is not None
        empty = np.zeros((0, 0) if self._kind == self._matrix else 0,
                         np.int32 if self._kind == self._integers else np.float32)
        for key in self._waiting:
            self._kind(key, empty)
        self._waiting.clear()

    def _integers(self, key: str, array: "np.ndarray[Any, Any]") -> None:
        whole = array.astype(np.int32)
        if not np.array_equal(whole, array):
            raise InputError(f"'{key}': numbers that do not fit into 32 bits")
        self._core.write_integers(key, np.ascontiguousarray(whole))

    def _vector(self, key: str, array: "np.ndarray[Any, Any]") -> None:
        self._core.write_vector(key, floats(array, 1, f"'{key}'"))

    def _matrix(self, key: str, array: "np.ndarray[Any, Any]") -> None:
        self._core.write_matrix(key, floats(array, 2, f"'{key}'"))
