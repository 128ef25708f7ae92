"""How words are said that no lexicon has."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

from . import _core
from ._arguments import PathLike, existing, path_text, real_number, checked_text, thread_count, whole_number
from ._core import CancelToken
from ._keywords import G2pKeywords, named
from ._settings import token
from ._toml import toml_options

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Pronunciation:
    """One way to say a word."""

    phones: tuple[str, ...]
    """In order, at least one."""
    probability: float
    """Of all the ways in which the word may be said."""


class G2p:
    """Pronounces words by what it learnt from a lexicon, as `antiphon g2p apply` does.

        antiphon.train_g2p("lang/lexicon.txt", "lang/english.g2p")
        antiphon.G2p("lang/english.g2p").pronounce("quokka")[0].phones

    May be used by many threads at once.
    """

    def __init__(self, model: PathLike) -> None:
        """`model`: what `antiphon g2p train` or train_g2p wrote, or a bundle that has such a model."""
        self._core = _core.G2p(existing(model, "model"))

    def pronounce(self, word: str, nbest: int = 1, least_probability: float = 0.0) -> list[Pronunciation]:
        """Best first, at most `nbest`, without those that are less probable than `least_probability` (but never without
        the best). InputError names letters that no word of the lexicon had."""
        guesses = self._core.pronounce(checked_text(word, "word"), whole_number(nbest, "nbest"),
                                       real_number(least_probability, "least_probability"))
        return [Pronunciation(tuple(guess.phones), guess.probability) for guess in guesses]

    @property
    def letters(self) -> list[str]:
        """That words may have."""
        return self._core.letters

    @property
    def phones(self) -> list[str]:
        """That pronunciations may have."""
        return self._core.phones


@named(G2pKeywords)
def train_g2p(lexicon: PathLike, out: PathLike, threads: int = 0, *, cancel: Optional[CancelToken] = None,
              **options: "Unpack[G2pKeywords]") -> G2p:
    """Learns from a lexicon (WORD PHONE … per line) and writes `out`, NAME.g2p. `options`: those of `antiphon g2p
    train`, with _ in place of -: order, max_letters, max_phones, iterations, prune. threads=0: all cores. `cancel`: by
    which others end it, with Cancelled; then nothing is written."""
    path = path_text(out, "out")
    _core.train_g2p(existing(lexicon, "lexicon"), path, toml_options(options), thread_count(threads),
                    token(cancel))
    return G2p(path)
