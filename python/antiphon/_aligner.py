"""When known words were said."""

import os
from dataclasses import dataclass
from typing import Any, Optional

from . import _core
from ._arguments import PathLike, existing, model_file, path_text, samples as checked_samples, checked_text, whole_number
from ._errors import UsageError


@dataclass(frozen=True)
class AlignedPhone:
    """A phone, or a pause."""

    phone: str
    """As the model names it."""
    start: float
    """Seconds from the beginning of the audio."""
    end: float
    """Likewise."""


@dataclass(frozen=True)
class AlignedWord:
    """A word of the text."""

    word: str
    """As the text has it."""
    start: float
    """Seconds from the beginning of the audio."""
    end: float
    """Likewise."""
    phones: tuple[AlignedPhone, ...]
    """What it consists of, in order."""


class Alignment:
    """Where the words and phones of a text are in its audio."""

    def __init__(self, core: "_core.AlignedSpeech") -> None:
        """Made by Aligner.align."""
        self._core = core
        self.phones = tuple(AlignedPhone(p.phone, p.start, p.end) for p in core.phones)
        """All phones, without gaps; pauses are phones, too."""
        self.words = tuple(AlignedWord(w.word, w.start, w.end,
                                       self.phones[w.first_phone:w.first_phone + w.num_phones]) for w in core.words)
        """The words, in order; pauses lie between them."""

    @property
    def duration(self) -> float:
        """Seconds of the audio."""
        return self._core.duration

    @property
    def log_likelihood(self) -> float:
        """Of the path, per frame, in nats: much lower than usual where text and audio differ."""
        return self._core.log_likelihood

    @property
    def unknown_words(self) -> list[str]:
        """Words of the text that the lexicon lacks."""
        return self._core.unknown_words

    def textgrid(self) -> str:
        """For Praat, ELAN and others: tiers "words" and "phones"."""
        return self._core.textgrid()

    def to_textgrid(self, path: PathLike) -> None:
        """Writes textgrid() into a file."""
        with open(path_text(path, "path"), "w", encoding="utf-8") as file:
            file.write(self.textgrid())

    def ctm(self, utterance: str) -> str:
        """Lines of UTTERANCE CHANNEL START DURATION WORD."""
        return self._core.ctm(checked_text(utterance, "utterance"))


class Aligner:
    """Finds the words and phones of a known text in its audio, as `antiphon align` does.

        aligner = antiphon.Aligner("mine.antiphon")
        aligner.align("x.wav", "the cat sat").to_textgrid("x.TextGrid")

    May be used by many threads at once.
    """

    def __init__(self, model: PathLike, lexicon: Optional[PathLike] = None) -> None:
        """`model`: what `antiphon bundle` made, a model file, or a folder with network/model.safetensors (or
        model.safetensors), as recipes leave it. `lexicon`: WORD PHONE … per line, with the model's phones; None: the
        bundle's."""
        self._core = _core.Aligner(model_file(existing(model, "model")),
                                   "" if lexicon is None else existing(lexicon, "lexicon"))

    def align(self, audio: Any, text: str, rate: Optional[int] = None) -> Alignment:
        """`audio`: the path of a file, or one channel of samples, floats in -1 … 1 or int16, with their `rate` in Hz.
        InputError if the audio is too short for the text, or a word has no pronunciation."""
        said = checked_text(text, "text")
        if isinstance(audio, (str, os.PathLike)):
            if rate is not None:
                raise UsageError("rate: a file says itself what its rate is")
            return Alignment(self._core.align_file(existing(audio, "audio"), said))
        if rate is None:
            raise TypeError("rate: samples need their sampling rate in Hz")
        return Alignment(self._core.align(checked_samples(audio), whole_number(rate, "rate"), said))
