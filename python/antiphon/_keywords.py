"""What calls take by name, with its types: for checkers of types, editors and help(). What is left out, or None, has
the library's default; tests hold the names against the library's own."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Optional, TypedDict, TypeVar, Union

from ._arguments import PathLike
from ._core import CancelToken, SpeakerMemory, SpeakerProfile

Table = Mapping[str, Any]
Precision = Literal["fp32", "bf16", "int8", "auto"]
Hotwords = Union[Mapping[str, float], Iterable[tuple[str, float]]]
AddedWords = Union[Mapping[str, str], Iterable[Union[str, tuple[str], tuple[str, str], tuple[str, str, float]]]]
_Function = TypeVar("_Function", bound=Callable[..., Any])


class RecognizerKeywords(TypedDict, total=False):
    """Of Recognizer."""

    beam: Optional[float]
    lattice_beam: Optional[float]
    max_active: Optional[int]
    acoustic_scale: Optional[float]
    weights: Optional[PathLike]
    lm_weight: Optional[float]
    word_penalty: Optional[float]
    nbest: Optional[int]
    hotwords: Optional[Hotwords]
    word_list: Optional[Iterable[str]]
    add_words: Optional[AddedWords]
    g2p: Optional[PathLike]
    lm: Optional[PathLike]
    vad: Optional[PathLike]
    written: Optional[PathLike]
    precision: Optional[Precision]
    profiles: Optional[bool]
    threads: Optional[int]
    confidences: Optional[bool]
    normalize_variance: Optional[bool]
    rescore_arpa: Optional[PathLike]
    graph_arpa: Optional[PathLike]
    adapt_graph: Optional[PathLike]
    adapt_passes: Optional[int]
    options: Optional[str]


class StreamKeywords(TypedDict, total=False):
    """Of Recognizer.stream."""

    endpoint_silence: Optional[float]
    max_utterance: Optional[float]
    learn_speaker: Optional[bool]
    step_frames: Optional[int]
    hotwords: Optional[Hotwords]
    word_list: Optional[Iterable[str]]
    nbest: Optional[int]
    profile: Optional[SpeakerProfile]
    memory: Optional[SpeakerMemory]
    cancel: Optional[CancelToken]
    cmvn_window: Optional[int]
    cmvn_min_window: Optional[int]
    normalize_variance: Optional[bool]


class AlignerKeywords(TypedDict, total=False):
    """Of Aligner."""

    beam: Optional[float]
    retry_beam: Optional[float]
    map_unknown_words: Optional[bool]
    adapt: Optional[bool]
    precision: Optional[Precision]
    threads: Optional[int]
    options: Optional[str]


class StandardFrontEndKeywords(TypedDict, total=False):
    """Of FrontEnd.standard."""

    sample_rate: Optional[int]
    frame_length_ms: Optional[float]
    frame_shift_ms: Optional[float]
    snip_edges: Optional[bool]
    dither: Optional[float]
    dither_seed: Optional[int]
    preemphasis: Optional[float]
    window: Optional[Literal["povey", "hamming", "hanning", "blackman", "sine", "rectangular"]]
    remove_dc_offset: Optional[bool]
    mel_bins: Optional[int]
    low_freq_hz: Optional[float]
    high_freq_hz: Optional[float]
    ceps: Optional[int]
    use_energy: Optional[bool]
    energy_floor: Optional[float]
    cepstral_lifter: Optional[float]
    lpc_order: Optional[int]
    pitch_dim: Optional[int]
    min_pitch_hz: Optional[float]
    max_pitch_hz: Optional[float]
    delta_order: Optional[int]
    delta_window: Optional[int]
    mean_window: Optional[int]
    mean_prior_frames: Optional[int]
    mean_prior: Optional[Sequence[float]]


class FrontEndKeywords(StandardFrontEndKeywords, total=False):
    """Of FrontEnd."""

    kind: Optional[Literal["fbank", "mfcc", "plp"]]


class G2pKeywords(TypedDict, total=False):
    """Of train_g2p."""

    order: Optional[int]
    max_letters: Optional[int]
    max_phones: Optional[int]
    iterations: Optional[int]
    prune: Optional[float]
    lexicon_options: Optional[Table]


class CorpusKeywords(TypedDict, total=False):
    """Of decode and align alike."""

    channels: Optional[Literal["mean", "each"]]
    audio_root: Optional[PathLike]
    allow_commands: Optional[bool]
    features: Optional[PathLike]
    utt2spk: Optional[PathLike]
    cmvn: Optional[PathLike]
    norm_vars: Optional[bool]
    speaker_model: Optional[PathLike]
    speaker_transforms: Optional[PathLike]
    speaker_vectors: Optional[PathLike]
    min_fmllr_frames: Optional[float]
    nnet: Optional[Table]


class DecodeKeywords(CorpusKeywords, total=False):
    """Of decode."""

    lattices: Optional[bool]
    lm_weight: Optional[float]
    word_penalty: Optional[float]
    risk_scale: Optional[float]
    rescore_arpa: Optional[PathLike]
    graph_arpa: Optional[PathLike]
    written: Optional[PathLike]
    add_words: Optional[PathLike]
    added_weight: Optional[float]
    g2p: Optional[PathLike]
    lm: Optional[PathLike]
    grammar: Optional[PathLike]
    word_loop: Optional[PathLike]
    adapt_passes: Optional[int]
    adapt_beam: Optional[float]
    fmllr_prior_frames: Optional[float]
    adapt_graph: Optional[PathLike]
    beam: Optional[float]
    lattice_beam: Optional[float]
    acoustic_scale: Optional[float]
    max_active: Optional[int]
    min_active: Optional[int]
    prune_interval: Optional[int]
    graph_cache: Optional[int]
    max_lattice_arcs: Optional[int]
    nbest: Optional[int]
    confidences: Optional[bool]
    hotwords: Optional[PathLike]
    hotword_bonus: Optional[float]
    word_list: Optional[PathLike]
    cut_above: Optional[float]
    cut_silence: Optional[float]
    max_piece: Optional[float]
    vad: Optional[PathLike]
    vad_threshold: Optional[float]
    vad_peak: Optional[float]
    vad_min_speech: Optional[float]
    vad_min_pause: Optional[float]
    vad_padding: Optional[float]
    vad_contrast: Optional[float]
    profile: Optional[PathLike]
    profiles: Optional[PathLike]
    lm_weights: Optional[Sequence[float]]
    word_penalties: Optional[Sequence[float]]


class AlignKeywords(CorpusKeywords, total=False):
    """Of align and check_corpus."""

    files: Optional[Sequence[Literal["json", "TextGrid"]]]
    adapt: Optional[bool]
    memory_mb: Optional[float]
    spelling: Optional[Literal["lexicon", "keep"]]
    last_stage: Optional[Literal["mono", "tri", "lda-mllt", "sat"]]
    map_unknown_words: Optional[bool]
    lda_dim: Optional[int]
    splice: Optional[int]
    mllt_iterations: Optional[Sequence[int]]
    fmllr_iterations: Optional[Sequence[int]]
    gaps: Optional[Literal["long", "all", "none"]]
    long_above: Optional[float]
    best_share: Optional[float]
    lexicon_options: Optional[Table]
    topology: Optional[Table]
    align: Optional[Table]
    update: Optional[Table]
    transitions: Optional[Table]
    tree: Optional[Table]
    mono: Optional[Table]
    tri: Optional[Table]
    lda_mllt: Optional[Table]
    sat: Optional[Table]
    gap: Optional[Table]


class TrainKeywords(TypedDict, total=False):
    """Of train."""

    held_out_store: Optional[PathLike]
    speaker_model: Optional[PathLike]
    ivector_extractor: Optional[PathLike]
    network_file: Optional[PathLike]
    initial_model: Optional[PathLike]
    anew_if_changed: Optional[bool]
    note: Optional[str]
    frames_per_forward: Optional[int]
    first_frame_offset: Optional[int]
    precision: Optional[Literal["fp32", "bf16", "auto"]]
    normalize_input: Optional[bool]
    dropout_schedule: Optional[str]
    priors: Optional[Literal["alignment", "posteriors"]]
    log_steps: Optional[int]
    deadline_seconds: Optional[float]
    schedule: Optional[Table]
    teacher: Optional[Table]
    side: Optional[Table]
    held_out: Optional[Table]
    data: Optional[Table]
    sequence: Optional[Table]
    average: Optional[Table]
    guard: Optional[Table]
    pretrain: Optional[Table]
    checkpoint: Optional[Table]
    optimizer: Optional[Table]
    parallel: Optional[Table]
    cluster: Optional[Table]


class CompressorKeywords(TypedDict, total=False):
    """Of Compressor: the last ones are the methods' tables."""

    frames: Optional[int]
    retrain: Optional[bool]
    distill: Optional[bool]
    train: Optional[Table]
    optimizer: Optional[Table]
    binarize: Optional[Table]
    circulant: Optional[Table]
    multiframe: Optional[Table]
    prune: Optional[Table]
    prune_nodes: Optional[Table]
    quantize: Optional[Table]
    student: Optional[Table]
    svd: Optional[Table]


class AdapterKeywords(TypedDict, total=False):
    """Of Adapter: the last ones are the methods' tables."""

    min_gain: Optional[float]
    max_forgetting: Optional[float]
    max_word_loss: Optional[float]
    prior_frames: Optional[float]
    old_frames: Optional[int]
    train: Optional[Table]
    optimizer: Optional[Table]
    adversarial: Optional[Table]
    fmllr: Optional[Table]
    kld: Optional[Table]
    lhn: Optional[Table]
    lhuc: Optional[Table]
    lin: Optional[Table]
    mix: Optional[Table]
    transfer: Optional[Table]


def named(keywords: type) -> Callable[[_Function], _Function]:
    """Shows these keywords in a function's signature, in place of what it has: interpreters and notebooks complete
    names by that."""
    def shown(function: _Function) -> _Function:
        signature = inspect.signature(function)
        others = [parameter for parameter in signature.parameters.values() if parameter.kind != parameter.VAR_KEYWORD]
        by_name = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
                   for name, annotation in keywords.__annotations__.items()]
        setattr(function, "__signature__", signature.replace(parameters=[*others, *by_name]))
        return function

    return shown
