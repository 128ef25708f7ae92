"""Speech in, words out."""

import os
import threading
from collections.abc import Callable
from dataclasses import astuple, dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional

from . import _core
from ._arguments import (WHOLE_FILE, Audio, PathLike, Samples, channel_of_file, existing, path_text, require_function,
                         samples as checked_samples, samples_and_rate, whole_number)
from ._core import CancelToken, SpeakerMemory, SpeakerProfile
from ._errors import Cancelled, UsageError
from ._keywords import RecognizerKeywords, StreamKeywords, named
from ._settings import filled

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
    """0 … 1; −1 where none was asked for, and of words of a partial result."""


@dataclass(frozen=True)
class Hypothesis:
    """One of the n best."""

    text: str
    """Its words, with blanks between."""
    cost: float
    """By which they are ranked, in nats; lower is better: graph_cost + acoustic_cost / lm_weight + word_penalty ·
    words."""
    graph_cost: float = 0.0
    """The language model's part, with pronunciations and transitions."""
    acoustic_cost: float = 0.0
    """The acoustic model's part."""


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
    audio_remarks: tuple[str, ...] = ()
    """What is wrong with the sound of a recording, in sentences; a stream says it in Stream.audio_remarks."""

    def json(self) -> str:
        """All of it in one line: an object with "text", "words" and, if they are there, "nbest", "remark", "written",
        "written_words" and "audio_remarks"; times in seconds, rounded to hundredths."""
        return _core.recognition_json(_values(self))


@dataclass(frozen=True)
class StreamEvent(Recognition):
    """What was understood of an utterance: so far, or in the end. Partial results have text, words with their times so
    far but no confidences, and written and written_words if asked for."""

    final: bool = False
    """The utterance is over; otherwise more may come, and words may change."""
    start: float = 0.0
    """Seconds from the beginning of the stream; of the utterance."""
    end: float = 0.0
    """The same of its end so far."""

    def json(self) -> str:
        """As of a Recognition, behind "final", "start" and "end"."""
        return _core.event_json((self.final, self.start, self.end, _values(self)))


class Recognizer:
    """Recognises recordings as `antiphon decode` does, with the same words, times and confidences.

        recognizer = antiphon.Recognizer("exp/mine")
        result = recognizer.recognize("call.wav")                  # a file, or samples and their rate
        print(result.text, [(word.word, word.start) for word in result.words])

    May be used by many threads at once.
    """

    @named(RecognizerKeywords)
    def __init__(self, model: PathLike, graph: Optional[PathLike] = None,
                 **settings: "Unpack[RecognizerKeywords]") -> None:
        """`model`: what `antiphon bundle` made; or the folder of a recipe, of which it takes what is there of
        model.safetensors or network/model.safetensors, graph/, decode-dev/weights.toml, graph-gmm/ and
        vad/network/model.safetensors; or a model file. `graph`: the folder that `antiphon graph` made for the model;
        None: the bundle's or the folder's.

        Settings, None for the default: beam (13; larger: slower, fewer search errors), lattice_beam, max_active,
        acoustic_scale, weights (the file of `decode --tune`), lm_weight, word_penalty, nbest (hypotheses to give),
        hotwords (a dict of phrases and the nats by which each of their words gets cheaper), word_list (the only words,
        or phrases of several, that may be recognised; "[unk]": others, too, shown as that), add_words (words that the
        graph lacks: a list, or a dict of words and their phones in a string, "" for what g2p says; needs a graph made
        with --on-the-fly), g2p (model of `antiphon g2p train`; else the bundle's), lm (ARPA file in place of such a
        graph's language model), vad (network of recipes/vad.toml, so that speech alone is recognised; else the
        bundle's; "none": everything is recognised), written ("english", a folder or file of `antiphon written`, or
        "bundle": the result as people write it, too), precision ("fp32", "bf16", "int8", "auto"), profiles (speakers'
        profiles can be loaded in other than fp32, too), threads, confidences, normalize_variance, rescore_arpa and
        graph_arpa (a larger language model, and the graph's), adapt_graph, adapt_passes; options: further options of
        `antiphon decode`, as TOML.
        """
        self._model = existing(model, "model")
        self._core = _core.Recognizer(self._model, "" if graph is None else existing(graph, "graph"),
                                      filled(_core.RecognizerSettings(), "Recognizer", settings))

    def __repr__(self) -> str:
        return f"<antiphon.Recognizer {self._model!r}, {self.sample_rate} Hz>"

    def recognize(self, audio: Audio, rate: Optional[int] = None, channel: Optional[int] = None,
                  nbest: Optional[int] = None, *, profile: Optional[SpeakerProfile] = None,
                  memory: Optional[SpeakerMemory] = None,
                  progress: Optional[Callable[[float], object]] = None,
                  cancel: Optional[CancelToken] = None) -> Recognition:
        """The words of one recording by one speaker.

        `audio`: the path of a file (WAV, FLAC, Ogg …) or its contents as bytes, of which `channel` is heard, from 0, or
        the mean of all; or one channel of samples, floats in -1 … 1 or int16, with their `rate` in Hz. `nbest`: as the
        setting, for this call. `profile`: of who speaks, from load_profile. `memory`: what they said before, to which
        this is added. `progress` is called now and then with the seconds that are done; what it raises ends the call.
        `cancel`: by which others end it, with Cancelled. Other threads run meanwhile.
        """
        call = _core.RecognizeSettings()
        call.nbest = -1 if nbest is None else whole_number(nbest, "nbest")
        if nbest is not None and call.nbest < 0:
            raise UsageError(f"nbest: expected 0 or more hypotheses, not {call.nbest}")
        filled(call, "recognize", {"profile": profile, "cancel": cancel})
        if memory is not None:
            _require_memory(memory)
        require_function(progress, "progress")
        if isinstance(audio, (str, os.PathLike)):
            call.channel = channel_of_file(rate, channel)
            found = self._core.recognize_file(existing(audio, "audio"), call, memory, progress)
        elif isinstance(audio, WHOLE_FILE):
            call.channel = channel_of_file(rate, channel)
            found = self._core.recognize_bytes(bytes(audio), call, memory, progress)
        else:
            found = self._core.recognize(*samples_and_rate(audio, rate, channel), call, memory, progress)
        return Recognition(**_fields(found))

    @named(StreamKeywords)
    def stream(self, rate: int, partial: bool = True, **settings: "Unpack[StreamKeywords]") -> "Stream":
        """A stream of speech that is still being said, of samples at this rate in Hz. With `partial`, it also tells
        what is understood so far.

        Settings, None for the default: endpoint_silence (0.5: seconds that end an utterance where one may end),
        max_utterance (20: seconds after which it is ended anyway), learn_speaker (True: a model that is trained for
        speakers' transforms learns that of who speaks), step_frames (20: between partial results), hotwords and
        word_list of this stream alone, nbest (of final results), profile (from load_profile), memory (what the
        speaker said before; Stream.memory has what to keep), cancel (by which others end it: later calls raise
        Cancelled), cmvn_window, cmvn_min_window and normalize_variance (of
        models whose features lose the mean of what is around them).
        """
        chosen = filled(_core.StreamSettings(), "stream", {"partial": partial, **settings})
        return Stream(self._core.stream(whole_number(rate, "rate"), chosen), settings.get("cancel"))

    def load_profile(self, file: PathLike) -> SpeakerProfile:
        """What `antiphon adapt --speaker` made for one person; InputError if it is damaged or of another model."""
        return self._core.load_profile(existing(file, "profile"))

    def load_memory(self, file: PathLike) -> SpeakerMemory:
        """What was known of a speaker when it was saved, here or by `antiphon listen --speaker`."""
        return self._core.load_memory(existing(file, "memory"))

    def save_memory(self, memory: SpeakerMemory, file: PathLike) -> None:
        """Writes it whole, for load_memory and `antiphon listen --speaker`."""
        _require_memory(memory)
        self._core.save_memory(memory, path_text(file, "file"))

    @property
    def uses_memory(self) -> bool:
        """Whether the model is of a kind to which a speaker's memory means something, if only in streams."""
        return self._core.uses_memory()

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

    Call `end` inside the block: one that is left without it ends the stream, too, but what became clear by that is in
    `rest` alone, and lost if an exception left the block. Events are the same however the samples are cut. Calls of
    several threads wait for each other.
    """

    def __init__(self, core: "_core.Stream", cancel: Optional[CancelToken] = None) -> None:
        """Made by Recognizer.stream."""
        self._core = core
        self._cancel = cancel
        # The library takes one call at a time. A handler of a signal may call while its own thread does.
        self._lock = threading.RLock()
        self._rest: tuple[StreamEvent, ...] = ()
        self._left = False

    def __repr__(self) -> str:
        return f"<antiphon.Stream, {'ended' if self.ended else 'open'}>"

    def accept(self, samples: Samples) -> list[StreamEvent]:
        """More samples, any number, floats in -1 … 1 or int16; what became clear by them."""
        if isinstance(samples, WHOLE_FILE):
            raise TypeError("samples: expected floats in -1 … 1 or int16, not bytes; 16-bit ones are "
                            "numpy.frombuffer(samples, numpy.int16)")
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
        """What remained when a `with` block was left without `end`, and what `accept` had found when a signal ended
        it."""
        return self._rest

    @property
    def ended(self) -> bool:
        """Whether it takes no more samples: it was ended, its block was left, or a call failed."""
        with self._lock:
            return self._left or self._core.ended()

    @property
    def memory(self) -> SpeakerMemory:
        """What is known of the speaker: what the setting said, after `end` with what was heard here."""
        with self._lock:
            return self._core.memory()

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
        """Ends the stream, if that was not done; `rest` has what remained, unless an exception is under way."""
        with self._lock:
            self._left = True
            if kind is None and not self._core.ended():
                self._rest += tuple(_event(event) for event in self._core.end())

    def _require_open(self) -> None:
        if not self._left and not self._core.ended():
            return
        if self._cancel is not None and self._cancel.cancelled:
            raise Cancelled("stopped on request while listening")
        raise UsageError("the stream was ended; Recognizer.stream makes another")


def _require_memory(memory: object) -> None:
    if not isinstance(memory, SpeakerMemory):
        raise TypeError(f"memory: expected SpeakerMemory, not {type(memory).__name__}")


def _values(recognition: Recognition) -> Any:
    """As _fields takes them."""
    return (recognition.text, [astuple(word) for word in recognition.words],
            [astuple(hypothesis) for hypothesis in recognition.nbest], recognition.remark, recognition.written,
            [astuple(word) for word in recognition.written_words], list(recognition.audio_remarks))


def _fields(found: Any) -> dict[str, Any]:
    text, words, hypotheses, remark, written, written_words, audio_remarks = found
    return {"text": text, "words": tuple(Word(*word) for word in words), "remark": remark,
            "written": written, "written_words": tuple(Word(*word) for word in written_words),
            "nbest": tuple(Hypothesis(*hypothesis) for hypothesis in hypotheses), "audio_remarks": tuple(audio_remarks)}


def _event(event: Any) -> StreamEvent:
    final, start, end, found = event
    return StreamEvent(**_fields(found), final=final, start=start, end=end)
