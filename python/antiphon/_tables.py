"""Kaldi tables."""

from collections.abc import Iterable, Iterator
from typing import Any, Union

import numpy as np

from . import _core
from ._arguments import Floats, Integers, PathLike, existing, floats, path_text


def read_table(table: PathLike) -> Iterator[tuple[str, Union[Floats, Integers]]]:
    """Walks over a Kaldi table: (key, array) of each entry, in the order of the file, one in memory at a time.

        for utt_id, features in antiphon.read_table("feats.scp"): ...

    `table`: a path, where the ending .scp says script, or "ark:PATH", "scp:PATH". Matrices are float32 [rows, columns],
    vectors float32, lists of whole numbers (alignments) int32; text, binary, gzip and Kaldi's compressed matrices are
    recognised. InputError naming file, key and byte for what is damaged or not finite.
    """
    text = path_text(table, "table")
    kind, _, rest = text.partition(":")
    existing(rest if kind in ("ark", "scp") and rest else text, "table")
    return iter(_core.TableReader(text))


def write_table(ark: PathLike, entries: Iterable[tuple[str, Any]], *, text: bool = False, script: bool = True,
                coding: str = "plain") -> int:
    """Writes a Kaldi table of (key, array) pairs, all arrays of one kind, and returns how many there were.

    `ark`: the archive, gzip if it ends in .gz; a script with the ending .scp is put beside it unless `script` is false.
    Arrays of floats with two dimensions become matrices, with one vectors; one-dimensional whole numbers int32 lists.
    `coding`: of matrices, "plain" or Kaldi's compressed "columns8", "global16", "global8". Both files appear, whole,
    when all entries are written; an error leaves nothing.
    """
    settings = _core.TableSettings()
    settings.text, settings.script, settings.coding = text, script, coding
    writer = _core.TableWriter(path_text(ark, "ark"), settings)
    count = 0
    for key, value in entries:
        if not isinstance(key, str):
            raise TypeError(f"key: expected text, not {type(key).__name__}")
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
