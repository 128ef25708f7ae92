"""From samples to feature frames."""

from typing import TYPE_CHECKING, Literal

from . import _core
from ._arguments import Floats, Samples, samples as checked_samples, checked_text, whole_number
from ._keywords import FrontEndKeywords, StandardFrontEndKeywords, named
from ._toml import toml_options, toml_with

if TYPE_CHECKING:
    from typing_extensions import Unpack


class FrontEnd:
    """From samples to feature frames, as `antiphon features` makes them.

        frames = antiphon.FrontEnd(kind="fbank", mel_bins=80, dither=0.0)(samples, 16000)   # [frames, 80]

    May be used by many threads at once.
    """

    @named(FrontEndKeywords)
    def __init__(self, options: str = "", **settings: "Unpack[FrontEndKeywords]") -> None:
        """`options`: TOML, such as Model.features; `settings`: options of `antiphon features` with underscores (kind,
        sample_rate, mel_bins …), which go before `options`. UsageError for an option that there is not, or that is out
        of its range.

        What neither names is as the command has it, for networks: kind "mfcc", 40 mel bins up to 400 Hz below half the
        rate, 40 cepstra with the zeroth, and dither 1.0. `standard` begins with Kaldi's defaults instead, which are
        others.
        """
        self._core = _core.FrontEnd(toml_with(checked_text(options, "options"), settings, "options"))

    @classmethod
    @named(StandardFrontEndKeywords)
    def standard(cls, kind: Literal["fbank", "mfcc", "plp"], rate: int = 16000,
                 **settings: "Unpack[StandardFrontEndKeywords]") -> "FrontEnd":
        """Kaldi's defaults of "fbank", "mfcc" or "plp", without dither; `settings` over them.

        "mfcc" is then 13 cepstra, the zeroth replaced by the log energy, of 23 mel bins up to half the rate: not what
        FrontEnd(kind="mfcc") makes.
        """
        front_end = cls.__new__(cls)
        front_end._core = _core.FrontEnd.standard(checked_text(kind, "kind"), whole_number(rate, "rate"),
                                                  toml_options(settings))
        return front_end

    def __call__(self, samples: Samples, rate: int, utt_id: str = "") -> Floats:
        """Frames [frames, dim] of one utterance; none if it is shorter than one.

        `samples`: one channel, floats in -1 … 1 or int16; `rate`: their Hz, converted to the front end's; `utt_id`
        selects the dither, if there is any. InputError for samples that are not finite or not one channel.
        """
        return self._core.compute(checked_samples(samples), whole_number(rate, "rate"), checked_text(utt_id, "utt_id"))

    @property
    def dim(self) -> int:
        """Values per frame."""
        return self._core.dim

    @property
    def rate(self) -> int:
        """Hz of the samples that frames are made of."""
        return self._core.rate

    @property
    def frame_shift(self) -> float:
        """Seconds from frame to frame."""
        return self._core.frame_shift

    @property
    def options(self) -> str:
        """All options, as TOML."""
        return self._core.options
