"""Speech in, words out."""

import os
from dataclasses import dataclass
from typing import Any, Optional

from . import _core
from ._arguments import PathLike, existing, samples as checked_samples, whole_number
from ._errors import UsageError


@dataclass(frozen=True)
class Word:
    """A recognised word."""

    word: str
    start: float
    """Seconds from the beginning of the audio."""
    end: float
    confidence: float
    """0 … 1."""


@dataclass(frozen=True)
class Recognition:
    """What was recognised."""

    text: str
    """The words, with blanks between."""
    words: tuple[Word, ...]
    remark: str
    """Why there are no words, for example; usually empty."""


class Recognizer:
    """Recognises recordings as `antiphon decode` does, with the same words, times and confidences.

        recognizer = antiphon.Recognizer("exp/mine")
        result = recognizer.recognize("call.wav")                  # a file, or samples and their rate
        print(result.text, [(word.word, word.start) for word in result.words])

    May be used by many threads at once.
    """

    def __init__(self, model: PathLike, graph: Optional[PathLike] = None, **settings: Any) -> None:
        """`model`: a model file and `graph` the folder that `antiphon graph` made for it; or one folder with
        network/model.safetensors (or model.safetensors) and graph/, as recipes leave it.

        Settings: beam (13; larger: slower, fewer search errors), acoustic_scale, lm_weight, word_penalty,
        normalize_variance, rescore_arpa and graph_arpa (a larger language model, and the graph's), adapt_graph,
        adapt_passes; as the options of `antiphon decode` with these names.
        """
        model_file, graph_folder = _find(model, graph)
        chosen = _core.RecognizerSettings()
        known = [name for name in dir(chosen) if not name.startswith("_")]
        for name, value in settings.items():
            if name not in known:
                raise TypeError(f"Recognizer has no setting '{name}'; known: {', '.join(known)}")
            if isinstance(value, os.PathLike):
                value = os.fspath(value)
            try:
                setattr(chosen, name, value)
            except TypeError:
                expected = type(getattr(chosen, name)).__name__
                raise TypeError(f"{name}: expected {expected}, not {type(value).__name__}") from None
        self._core = _core.Recognizer(model_file, graph_folder, chosen)

    def recognize(self, audio: Any, rate: Optional[int] = None) -> Recognition:
        """The words of one recording by one speaker.

        `audio`: the path of a file (WAV, FLAC, Ogg …; channels are averaged), or one channel of samples, floats in
        -1 … 1 or int16, with their `rate` in Hz. Other threads run meanwhile.
        """
        if isinstance(audio, (str, os.PathLike)):
            if rate is not None:
                raise UsageError("rate: a file says itself what its rate is")
            text, words, remark = self._core.recognize_file(existing(audio, "audio"))
        else:
            if rate is None:
                raise TypeError("rate: samples need their sampling rate in Hz")
            text, words, remark = self._core.recognize(checked_samples(audio), whole_number(rate, "rate"))
        return Recognition(text, tuple(Word(*word) for word in words), remark)

    @property
    def vocabulary(self) -> list[str]:
        """The words that it can recognise."""
        return self._core.vocabulary()


def _find(model: PathLike, graph: Optional[PathLike]) -> tuple[str, str]:
    path = existing(model, "model")
    if not os.path.isdir(path):
        if graph is None:
            raise TypeError("graph: a model file needs the folder of its graph, or give the folder that holds both")
        return path, existing(graph, "graph")
    for name in ("model.safetensors", os.path.join("network", "model.safetensors")):
        file = os.path.join(path, name)
        if os.path.isfile(file):
            return file, existing(os.path.join(path, "graph") if graph is None else graph, "graph")
    raise FileNotFoundError(2, "model: the folder has neither model.safetensors nor network/model.safetensors", path)
