"""Settings objects of the compiled module, filled with what a caller gives by name."""

import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Optional

import numpy as np

from . import _core
from ._arguments import checked_text, existing, real_number, require_list, whole_number


def token(cancel: Optional[_core.CancelToken]) -> _core.CancelToken:
    """What a call was given as `cancel`: that, or one that nobody cancels."""
    if cancel is None:
        return _core.CancelToken()
    if not isinstance(cancel, _core.CancelToken):
        raise TypeError(f"cancel: expected CancelToken, not {type(cancel).__name__}")
    return cancel


def filled(settings: Any, whose: str, given: Mapping[str, Any]) -> Any:
    """The settings object with these values; None: as it is. TypeError for names that it has not, and for values of the
    wrong type."""
    known = [name for name in dir(settings) if not name.startswith("_")]
    for name, value in given.items():
        if name not in known:
            nearest = get_close_matches(name, known, 1)
            meant = f" (did you mean '{nearest[0]}'?)" if nearest else ""
            raise TypeError(f"{whose} has no setting '{name}'{meant}; known: {', '.join(known)}")
        if value is not None:
            setattr(settings, name, _setting(name, value, getattr(settings, name)))
    return settings


def _setting(name: str, value: Any, default: Any) -> Any:
    """The value as the library takes it, which has this default."""
    if name in _LISTS:
        require_list(value, name, "a list" if name == "word_list" else "a list or a dict")
        return [_LISTS[name](item) for item in (value.items() if isinstance(value, Mapping) else value)]
    if name in _FILES and not (isinstance(value, str) and (value == "" or (name == "vad" and value == "none"))):
        return existing(value, name)
    if isinstance(default, bool):
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name}: expected bool, not {type(value).__name__}")
        return bool(value)
    if isinstance(default, int):
        return whole_number(value, name)
    if isinstance(default, float):
        return real_number(value, name)
    if isinstance(default, str):
        return checked_text(os.fspath(value) if isinstance(value, os.PathLike) else value, name)
    if not isinstance(value, type(default)):
        raise TypeError(f"{name}: expected {type(default).__name__}, not {type(value).__name__}")
    return value


def _hotword(pair: Any) -> tuple[str, float]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"hotwords: expected pairs of a phrase and its nats, found {pair!r}")
    phrase = checked_text(pair[0], "hotwords")
    return phrase, real_number(pair[1], f"hotwords: '{phrase}'")


def _added_word(item: Any) -> tuple[str, str, float]:
    # A word, with its phones, with its weight.
    parts = (item,) if isinstance(item, str) else item
    if not isinstance(parts, (tuple, list)) or not 1 <= len(parts) <= 3:
        raise TypeError(f"add_words: expected words, or tuples (word, phones, weight), found {item!r}")
    word, phones, weight = (*parts, "", 1.0)[:3] if len(parts) < 2 else (*parts, 1.0)[:3]
    return (checked_text(word, "add_words"), checked_text(phones, f"add_words: phones of '{word}'"),
            real_number(weight, f"add_words: weight of '{word}'"))


_LISTS: dict[str, Callable[[Any], Any]] = {"hotwords": _hotword, "add_words": _added_word,
                                            "word_list": lambda word: checked_text(word, "word_list")}
_FILES = ("weights", "rescore_arpa", "graph_arpa", "g2p", "lm", "vad")
