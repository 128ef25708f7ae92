"""When known words were said."""

import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

from . import _core
from ._arguments import (WHOLE_FILE, Audio, PathLike, channel_of_file, checked_text, existing, path_text,
                         samples_and_rate)
from ._core import CancelToken
from ._keywords import AlignerKeywords, named
from ._settings import filled, token

if TYPE_CHECKING:
    from typing_extensions import Unpack


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


@dataclass(frozen=True)
class UnalignedPart:
    """Where text and audio do not agree: looked for in audio of more than a minute."""

    start: float
    """Seconds from the beginning of the audio."""
    end: float
    """Likewise; the start, if it is text that nobody says."""
    words: tuple[str, ...]
    """Of the text; empty: speech that the text lacks."""


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
        self.unaligned = tuple(UnalignedPart(u.start, u.end, tuple(u.words)) for u in core.unaligned)
        """Where text and audio do not agree, in the order of time; these words are not among `words`."""

    def __repr__(self) -> str:
        return f"<antiphon.Alignment, {len(self.words)} words, {self.duration:.2f} s>"

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

    @property
    def retried(self) -> bool:
        """Whether the first beam found no path, and `retry_beam` did."""
        return self._core.retried

    def textgrid(self) -> str:
        """For Praat, ELAN and others: tiers "words" and "phones"."""
        return self._core.textgrid()

    def to_textgrid(self, path: PathLike) -> None:
        """Writes textgrid() into a file."""
        with open(path_text(path, "path"), "w", encoding="utf-8") as file:
            file.write(self.textgrid())

    def ctm(self, utterance: str, *, phones: bool = False, channel: str = "1") -> str:
        """Lines of UTTERANCE CHANNEL START DURATION WORD, or PHONE."""
        return self._core.ctm(checked_text(utterance, "utterance"), bool(phones), checked_text(channel, "channel"))

    def json(self) -> str:
        """All of it: an object with "words" and their "phones", "duration", "log_likelihood", "retried",
        "unknown_words" and "unaligned"; times in seconds."""
        return self._core.json()


class Aligner:
    """Finds the words and phones of a known text in its audio, as `antiphon align` does.

        aligner = antiphon.Aligner("mine.antiphon")
        aligner.align("x.wav", "the cat sat").to_textgrid("x.TextGrid")

    May be used by many threads at once.
    """

    @named(AlignerKeywords)
    def __init__(self, model: PathLike, lexicon: Optional[PathLike] = None,
                 **settings: "Unpack[AlignerKeywords]") -> None:
        """`model`: what `antiphon bundle` made, a model file, or a folder with model.safetensors or
        network/model.safetensors, as recipes leave it. `lexicon`: WORD PHONE … per line, with the model's phones;
        None: the bundle's, or that of the folder's graph.

        Settings, None for the default: beam (10) and retry_beam (40; of the second attempt), map_unknown_words (words
        that the lexicon lacks are aligned as <UNK>, if it has that), adapt (to the speaker, if the model is trained for
        it), precision ("fp32", "bf16", "int8", "auto"), threads, options (further ones of `antiphon align`, as TOML).
        """
        self._model = existing(model, "model")
        self._core = _core.Aligner(self._model, "" if lexicon is None else existing(lexicon, "lexicon"),
                                   filled(_core.AlignerSettings(), "Aligner", settings))

    def __repr__(self) -> str:
        return f"<antiphon.Aligner {self._model!r}>"

    def align(self, audio: Audio, text: str, rate: Optional[int] = None, channel: Optional[int] = None, *,
              cancel: Optional[CancelToken] = None) -> Alignment:
        """`audio`: the path of a file or its contents as bytes, of which `channel` is heard, from 0, or the mean of
        all; or one channel of samples, floats in -1 … 1 or int16, with their `rate` in Hz. InputError if the audio is
        too short for the text, or a word has no pronunciation. `cancel`: by which others end the call, with
        Cancelled."""
        said, stop = checked_text(text, "text"), token(cancel)
        if isinstance(audio, (str, os.PathLike)):
            number = channel_of_file(rate, channel)
            return Alignment(self._core.align_file(existing(audio, "audio"), number, said, stop))
        if isinstance(audio, WHOLE_FILE):
            number = channel_of_file(rate, channel)
            with tempfile.TemporaryDirectory() as folder:  # the library aligns files that have a name
                file = os.path.join(folder, "audio")
                with open(file, "wb") as written:
                    written.write(audio)
                return Alignment(self._core.align_file(file, number, said, stop))
        return Alignment(self._core.align(*samples_and_rate(audio, rate, channel), said, stop))
