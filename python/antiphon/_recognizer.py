"""Speech in, words out."""

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Optional

import numpy as np

from . import _core
from ._arguments import (PathLike, existing, is_bundle, model_file, real_number, samples as checked_samples, checked_text,
                         whole_number)
from ._errors import UsageError


@dataclass(frozen=True)
class Word:
    """A recognised word."""

    word: str
    """As the graph has it, or as people write it."""
    start: float
    """Seconds from the beginning of the audio."""
    end: float
    """Likewise."""
    confidence: float
    """0 … 1; −1 where none was asked for."""


@dataclass(frozen=True)
class Hypothesis:
    """One of the n best."""

    text: str
    """Its words, with blanks between."""
    cost: float
    """By which they are ranked, in nats; lower is better."""


@dataclass(frozen=True)
class Recognition:
    """What was recognised."""

    text: str
    """The words, with blanks between."""
    words: tuple[Word, ...]
    """In order, with their times."""
    remark: str
    """Why there are no words, for example; usually empty."""
    nbest: tuple[Hypothesis, ...] = ()
    """Best first, with different words; empty unless asked for."""
    written: str = ""
    """As people write it, with numbers, full stops and capitals; empty unless asked for."""
    written_words: tuple[Word, ...] = ()
    """The same with times: each has those of the words that it stands for."""


@dataclass(frozen=True)
class StreamEvent(Recognition):
    """What was understood of an utterance: so far, or in the end. Partial results have text alone, and written if asked for."""

    final: bool = False
    """The utterance is over; otherwise more may come, and words may change."""
    start: float = 0.0
    """Seconds from the beginning of the stream; of the utterance."""
    end: float = 0.0
    """The same of its end so far."""


class Recognizer:
    """Recognises recordings as `antiphon decode` does, with the same words, times and confidences.

        recognizer = antiphon.Recognizer("exp/mine")
        result = recognizer.recognize("call.wav")                  # a file, or samples and their rate
        print(result.text, [(word.word, word.start) for word in result.words])

    May be used by many threads at once.
    """

    def __init__(self, model: PathLike, graph: Optional[PathLike] = None, **settings: Any) -> None:
        """`model`: what `antiphon bundle` made; or a model file and `graph` the folder that `antiphon graph` made for
        it; or one folder with network/model.safetensors (or model.safetensors) and graph/, as recipes leave it.

        Settings: beam (13; larger: slower, fewer search errors), lattice_beam, max_active, acoustic_scale, weights (the
        file of `decode --tune`), lm_weight, word_penalty, nbest (hypotheses to give), hotwords (a dict of phrases and
        the nats by which each of their words gets cheaper), word_list (the only words, or
        phrases of several, that may be recognised; "[unk]": others, too, shown as that),
        add_words (words that the graph lacks: a list, or a dict of words and their phones in a string, "" for what g2p
        says; needs a graph made with --on-the-fly), g2p (model of `antiphon g2p train`; else the bundle's), lm (ARPA
        file in place of such a graph's language model), vad (network of recipes/vad.toml, so that speech alone is
        recognised; else the bundle's; "none": everything is recognised), written ("english", a folder or file of
        `antiphon written`, or "bundle": the result as people write it, too),
        precision ("fp32", "bf16", "int8", "auto"), threads, confidences, normalize_variance, rescore_arpa and
        graph_arpa (a larger language model, and the graph's), adapt_graph, adapt_passes; options: further options of
        `antiphon decode`, as TOML.
        """
        model_path, graph_folder = _find(model, graph)
        chosen = _core.RecognizerSettings()
        known = [name for name in dir(chosen) if not name.startswith("_")]
        for name, value in settings.items():
            if name not in known:
                raise TypeError(f"Recognizer has no setting '{name}'; known: {', '.join(known)}")
            setattr(chosen, name, _setting(name, value, getattr(chosen, name)))
        self._core = _core.Recognizer(model_path, graph_folder, chosen)

    def recognize(self, audio: Any, rate: Optional[int] = None, channel: Optional[int] = None,
                  nbest: Optional[int] = None) -> Recognition:
        """The words of one recording by one speaker.

        `audio`: the path of a file (WAV, FLAC, Ogg …) or its contents as bytes, of which `channel` is heard, from 0, or
        the mean of all; or one channel of samples, floats in -1 … 1 or int16, with their `rate` in Hz. `nbest`: as the
        setting, for this call. Other threads run meanwhile.
        """
        most = -1 if nbest is None else whole_number(nbest, "nbest")
        if nbest is not None and most < 0:
            raise UsageError(f"nbest: expected 0 or more hypotheses, not {most}")
        if isinstance(audio, (str, os.PathLike, bytes, bytearray, memoryview)):
            if rate is not None:
                raise UsageError("rate: a file says itself what its rate is")
            number = -1 if channel is None else whole_number(channel, "channel")
            if isinstance(audio, (bytes, bytearray, memoryview)):
                found = self._core.recognize_bytes(bytes(audio), number, most)
            else:
                found = self._core.recognize_file(existing(audio, "audio"), number, most)
        else:
            if channel is not None:
                raise UsageError("channel: samples are one channel; choose it before")
            if not hasattr(audio, "__array__") and not hasattr(audio, "__dlpack__") and not isinstance(audio, Sequence):
                raise TypeError("audio: expected the path of a file, its bytes, or an array of samples, not "
                                f"{type(audio).__name__}")
            if rate is None:
                raise TypeError("rate: samples need their sampling rate in Hz")
            found = self._core.recognize(checked_samples(audio), whole_number(rate, "rate"), most)
        return Recognition(**_fields(found))

    def stream(self, rate: int, partial: bool = True) -> "Stream":
        """A stream of speech that is still being said, of samples at this rate in Hz. With `partial`, it also tells what
        is understood so far."""
        return Stream(self._core.stream(whole_number(rate, "rate"), bool(partial)))

    @property
    def sample_rate(self) -> int:
        """Hz of the model; audio at other rates is converted."""
        return self._core.sample_rate()

    @property
    def vocabulary(self) -> list[str]:
        """The words that it can recognise."""
        return self._core.vocabulary()


_SAMPLES_AT_ONCE = 1 << 16


class Stream:
    """Speech that is still being said: samples in, words out as they become clear, as `antiphon listen` prints them.

        with recognizer.stream(rate=8000) as stream:
            for samples in microphone:
                for event in stream.accept(samples):
                    print(event.text, event.final)
            for event in stream.end():
                print(event.text)

    A block that is left without `end` ends the stream; what became clear by that is in `rest`. Events are the same
    however the samples are cut. Calls of several threads wait for each other.
    """

    def __init__(self, core: "_core.Stream") -> None:
        """Made by Recognizer.stream."""
        self._core = core
        # The library takes one call at a time. A handler of a signal may call while its own thread does.
        self._lock = threading.RLock()
        self._rest: tuple[StreamEvent, ...] = ()

    def accept(self, samples: Any) -> list[StreamEvent]:
        """More samples, any number, floats in -1 … 1 or int16; what became clear by them."""
        given = checked_samples(samples)
        found: list[StreamEvent] = []
        with self._lock:
            self._require_open()
            try:
                # A signal is heard between two pieces.
                for first in range(0, max(1, len(given)), _SAMPLES_AT_ONCE):
                    self._require_open()
                    found += map(_event, self._core.accept(given[first:first + _SAMPLES_AT_ONCE]))
            except BaseException:
                self._rest += tuple(found)
                raise
        return found

    def end(self) -> list[StreamEvent]:
        """No more samples will come; what remains. Once."""
        with self._lock:
            self._require_open()
            return [_event(event) for event in self._core.end()]

    @property
    def rest(self) -> tuple[StreamEvent, ...]:
        """What remained when a `with` block was left without `end`, and what `accept` had found when a signal ended it."""
        return self._rest

    @property
    def ended(self) -> bool:
        """Whether it takes no more samples: it was ended, or a call failed."""
        with self._lock:
            return self._core.ended()

    @property
    def audio_remarks(self) -> list[str]:
        """What is wrong with the sound so far, in sentences: silence, clipping."""
        with self._lock:
            return self._core.audio_remarks()

    def __enter__(self) -> "Stream":
        """The stream itself."""
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        """Ends the stream, if that was not done and no exception is under way; `rest` has what remained."""
        with self._lock:
            if kind is None and not self._core.ended():
                self._rest += tuple(_event(event) for event in self._core.end())

    def _require_open(self) -> None:
        if self._core.ended():
            raise UsageError("the stream was ended; Recognizer.stream makes another")


def _fields(found: Any) -> dict[str, Any]:
    text, words, hypotheses, remark, written, written_words = found
    return {"text": text, "words": tuple(Word(*word) for word in words), "remark": remark,
            "written": written, "written_words": tuple(Word(*word) for word in written_words),
            "nbest": tuple(Hypothesis(*hypothesis) for hypothesis in hypotheses)}


def _setting(name: str, value: Any, default: Any) -> Any:
    """The value as the library takes it, which has this default."""
    if name in _LISTS:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise TypeError(f"{name}: expected a list{'' if name == 'word_list' else ' or a dict'}, "
                            f"not {type(value).__name__}")
        return [_LISTS[name](item) for item in (value.items() if isinstance(value, dict) else value)]
    if name in _FILES and value not in ("", "none"):
        return existing(value, name)
    if isinstance(default, bool):
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name}: expected bool, not {type(value).__name__}")
        return bool(value)
    if isinstance(default, int):
        return whole_number(value, name)
    if isinstance(default, float):
        return real_number(value, name)
    return checked_text(os.fspath(value) if isinstance(value, os.PathLike) else value, name)


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


def _event(event: Any) -> StreamEvent:
    final, start, end, found = event
    return StreamEvent(**_fields(found), final=final, start=start, end=end)


def _find(model: PathLike, graph: Optional[PathLike]) -> tuple[str, str]:
    path = existing(model, "model")
    if is_bundle(path):
        return path, "" if graph is None else existing(graph, "graph")
    if os.path.isdir(path):
        beside = os.path.join(path, "graph") if graph is None else graph
        return model_file(path), existing(beside, "graph")
    if graph is None:
        raise TypeError("graph: a model file needs the folder of its graph, or give the folder that holds both")
    return path, existing(graph, "graph")
