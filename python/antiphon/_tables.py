"""Kaldi tables."""

from collections.abc import Iterable, Iterator
from typing import Any, Union

import numpy as np

from . import _core
from ._arguments import Floats, Integers, PathLike, existing, floats, path_text, checked_text
from ._errors import UsageError


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


def write_table(ark: PathLike, entries: Iterable[tuple[str, Any]], *, text: bool = False, script: bool = True,
                coding: str = "plain") -> int:
    """Writes a Kaldi table of (key, array) pairs, all arrays of one kind, and returns how many there were.

    `ark`: the archive (a path, or "ark:PATH"), gzip if it ends in .gz; a script with the ending .scp is put beside it unless `script` is false.
    Arrays of floats with two dimensions become matrices, with one vectors; one-dimensional whole numbers int32 lists.
    `coding`: of matrices, "plain" or Kaldi's compressed "columns8", "global16", "global8". Both files appear, whole,
    when all entries are written; an error leaves nothing.
    """
    settings = _core.TableSettings()
    settings.text, settings.script, settings.coding = bool(text), bool(script), checked_text(coding, "coding")
    writer = _core.TableWriter(_archive(ark), settings)
    count = 0
    for key, value in entries:
        checked_text(key, "key")
        array = np.asarray(value)
        if np.issubdtype(array.dtype, np.integer) and array.ndim == 1:
            whole = array.astype(np.int32)
            if not np.array_equal(whole, array):
                raise ValueError(f"'{key}': numbers that do not fit into 32 bits")
            writer.write_integers(key, np.ascontiguousarray(whole))
        elif array.ndim == 1:
            writer.write_vector(key, floats(array, 1, f"'{key}'"))
        else:
            writer.write_matrix(key, floats(array, 2, f"'{key}'"))
        count += 1
    writer.close()
    return count
