"""Corpora recognised, aligned and checked, as the program does it: folders in, files out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from . import _core
from ._arguments import UINT64, PathLike, checked_text, existing, path_text, thread_count, whole_number
from ._core import CancelToken
from ._keywords import AlignKeywords, DecodeKeywords, named
from ._settings import token
from ._toml import toml_options

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class WordErrors:
    """Recognised words against the transcripts."""

    utterances: int
    """That were compared."""
    wrong_utterances: int
    """Of these, those with errors."""
    words: int
    """Of the transcripts."""
    substitutions: int
    """Words in the place of others."""
    deletions: int
    """Words that were not recognised."""
    insertions: int
    """Words that nobody said."""
    rate: float
    """Errors per word of the transcripts: the word error rate."""
    interval_low: float
    """Within which the rate lies with 95 %, by drawing utterances again and again."""
    interval_high: float
    """Likewise."""


@dataclass(frozen=True)
class TunedWeights:
    """What a decoding with `tune` chose."""

    lm_weight: float
    """Of the language model, which is 1 / acoustic scale."""
    word_penalty: float
    """Cost per word."""
    risk_scale: float
    """0: the likeliest words are taken, else those with the fewest expected errors."""
    error_rate: float
    """With them, on these data."""
    file: str
    """weights.toml, for `weights` of further calls and of Recognizer."""


@dataclass(frozen=True)
class DecodingResult:
    """What a decoding left, and what it says of itself."""

    utterances: int
    """That were recognised."""
    speech: float
    """Seconds of it."""
    cpu_time: float
    """Seconds, of all threads together."""
    wall_time: float
    """Seconds."""
    real_time_factor: float
    """Seconds of CPU time per second of speech."""
    lm_weight: float
    """By which the results were chosen."""
    word_penalty: float
    """Likewise."""
    risk_scale: float
    """Likewise."""
    output_share: float
    """Of the network's outputs that were computed: below 1 with nnet={"lazy": True}."""
    speaker_transforms: int
    """Speakers to whom the model adapted."""
    errors: Optional[WordErrors]
    """None: the data have no transcripts of these utterances."""
    tuned: Optional[TunedWeights]
    """None: without `tune`."""
    text: str
    """The file of words, UTTERANCE WORD … a line."""
    results: str
    """The file results.jsonl: words, times, confidences, the n best."""
    summary: dict[str, Any]
    """What summary.json says."""


@dataclass(frozen=True)
class CorpusRemark:
    """What somebody should know of a part of a corpus."""

    where: str
    """Utterance, file, or file:line."""
    what: str
    """What is wrong, and what to do."""
    fatal: bool
    """Of check_corpus: nothing can be aligned before it is repaired."""


@dataclass(frozen=True)
class AlignmentResult:
    """What an alignment of a corpus left, and what it says of itself."""

    utterances: int
    """That there were."""
    aligned: int
    """Of these."""
    frames: float
    """Aligned."""
    log_likelihood: float
    """Per frame, in nats."""
    time_step: float
    """Of words and phones, in seconds."""
    wall_time: float
    """Seconds."""
    partial: bool
    """Audio was given, and some of it or of its texts got no alignment."""
    left_out: tuple[CorpusRemark, ...]
    """Files, texts and utterances that nothing could be tried with."""
    skipped: tuple[CorpusRemark, ...]
    """Utterances that were tried and got no alignment."""
    suspicious: tuple[CorpusRemark, ...]
    """Utterances that may not say their text, with the place to listen to."""
    unknown_words: dict[str, int]
    """Without pronunciation, and how often they come."""
    model: str
    """The file of the mixtures that were trained; "" where a model was given."""
    words: str
    """The file words.ctm."""
    phones: str
    """The file phones.ctm."""
    report: str
    """The file report.txt."""
    summary: dict[str, Any]
    """What report.json says."""


@dataclass(frozen=True)
class CorpusCheck:
    """Whether audio, transcripts and lexicon fit together."""

    utterances: int
    """That there are."""
    speech: float
    """Seconds of audio."""
    problems: tuple[CorpusRemark, ...]
    """Most serious first."""
    unknown_words: dict[str, int]
    """Without pronunciation, and how often they come, most frequent first."""
    pronounced: int
    """Words that the lexicon lacks and the g2p model pronounces."""
    text: str
    """All of it, for a person."""

    @property
    def fine(self) -> bool:
        """Nothing is wrong."""
        return not self.problems and not self.unknown_words


def _optional(path: Optional[PathLike], name: str) -> str:
    return "" if path is None else existing(path, name)


def _with_common(settings: Any, data: PathLike, config: str, options: Mapping[str, Any], seed: int,
                 threads: int) -> Any:
    """The settings with what all calls here take."""
    settings.data = existing(data, "data")
    settings.config = toml_options(options) + checked_text(config, "config")
    settings.seed = whole_number(seed, "seed", UINT64)
    settings.threads = thread_count(threads)
    return settings


def _remarks(found: list[tuple[str, str, bool]]) -> tuple[CorpusRemark, ...]:
    return tuple(CorpusRemark(*remark) for remark in found)


@named(DecodeKeywords)
def decode(model: PathLike, data: PathLike, out: PathLike, *, graph: Optional[PathLike] = None,
           weights: Optional[PathLike] = None, tune: bool = False, config: str = "", seed: int = 1, threads: int = 0,
           cancel: Optional[CancelToken] = None, **options: "Unpack[DecodeKeywords]") -> DecodingResult:
    """Recognises a corpus: all that `antiphon decode` does, with the same files.

        found = antiphon.decode("mine.antiphon", "data/test", "exp/decode", nbest=10)
        print(found.errors.rate, found.text)

    `model`: what `antiphon bundle` made, a recipe's folder, or a model file. `data`: a data directory, whose `text`, if
    there, is the reference; or audio, a file or a folder of them. `out`: the folder for words, times, confidences and
    lattices. `graph`: the folder that `antiphon graph` made for the model; None: the bundle's. `weights`: weights.toml
    of an earlier call with `tune`, which chooses them on the data of a development set. `config`: TOML with options of
    `antiphon decode`, `options`: the same as keyword arguments, with underscores, the table nnet as a dict. `threads`: 0
    for all cores. Ctrl-C ends it, and leaves no words; so does `cancel`, by which others end it with Cancelled."""
    stop = token(cancel)
    settings = _with_common(_core.CorpusDecoderSettings(), data, config, options, seed, threads)
    settings.model = existing(model, "model")
    settings.out = path_text(out, "out")
    settings.graph = _optional(graph, "graph")
    settings.weights = _optional(weights, "weights")
    settings.tune = bool(tune)
    found = _core.decode(settings, stop)
    return DecodingResult(found.utterances, found.speech, found.cpu_time, found.wall_time, found.real_time_factor,
                          found.lm_weight, found.word_penalty, found.risk_scale, found.output_share,
                          found.speaker_transforms, None if found.errors is None else WordErrors(*found.errors),
                          None if found.tuned is None else TunedWeights(*found.tuned), found.text_file,
                          found.results_file, json.loads(found.summary))


def _alignment(data: PathLike, model: Optional[PathLike], lexicon: Optional[PathLike], transcripts: Optional[PathLike],
               g2p: Optional[PathLike], config: str, options: Mapping[str, Any], seed: int, threads: int) -> Any:
    settings = _with_common(_core.CorpusAlignerSettings(), data, config, options, seed, threads)
    settings.model = _optional(model, "model")
    settings.lexicon = _optional(lexicon, "lexicon")
    settings.transcripts = _optional(transcripts, "transcripts")
    settings.g2p = _optional(g2p, "g2p")
    return settings


@named(AlignKeywords)
def align(data: PathLike, out: PathLike, *, model: Optional[PathLike] = None, lexicon: Optional[PathLike] = None,
          transcripts: Optional[PathLike] = None, g2p: Optional[PathLike] = None, config: str = "", seed: int = 1,
          threads: int = 0, cancel: Optional[CancelToken] = None, **options: "Unpack[AlignKeywords]") -> AlignmentResult:
    """Finds when each word and phone of a corpus was said: all that `antiphon align` does, with the same files.

        found = antiphon.align("recordings/", "exp/times", model="mine.antiphon", files=["TextGrid"])
        print(found.aligned, [remark.where for remark in found.skipped])

    `data`: a folder with text and features, a data directory, or audio, a file or a folder of them, with `transcripts`,
    a table of their words; None: .txt, .lab or .TextGrid files beside them. `out`: the folder for times, labels and the
    report. `model`: the one to align by; None: mixtures are trained from a flat start, up to `last_stage`. `lexicon`:
    WORD PHONE … per line; None: the bundle's. `g2p`: the model for words that the lexicon lacks; None: the bundle's.
    `config`, `options`, `threads`, `cancel`: as decode's. Utterances that get no alignment are no error: the result
    tells them."""
    stop = token(cancel)
    settings = _alignment(data, model, lexicon, transcripts, g2p, config, options, seed, threads)
    settings.out = path_text(out, "out")
    found = _core.align(settings, stop)
    return AlignmentResult(found.utterances, found.aligned, found.frames, found.log_likelihood, found.time_step,
                           found.wall_time, found.partial, _remarks(found.left_out), _remarks(found.skipped),
                           _remarks(found.suspicious), dict(found.unknown_words), found.model_file, found.words_file,
                           found.phones_file, found.report_file, json.loads(found.report))


@named(AlignKeywords)
def check_corpus(data: PathLike, *, model: Optional[PathLike] = None, lexicon: Optional[PathLike] = None,
                 transcripts: Optional[PathLike] = None, g2p: Optional[PathLike] = None, config: str = "",
                 threads: int = 0, cancel: Optional[CancelToken] = None,
                 **options: "Unpack[AlignKeywords]") -> CorpusCheck:
    """What is wrong with the data of an alignment before it runs, as `antiphon align --validate` says: files, sound,
    words without pronunciation. Arguments as `align`'s; writes nothing."""
    stop = token(cancel)
    settings = _alignment(data, model, lexicon, transcripts, g2p, config, options, 1, threads)
    found = _core.check_corpus(settings, stop)
    return CorpusCheck(found.utterances, found.speech, _remarks(found.problems), dict(found.unknown_words),
                       found.pronounced, found.text)
