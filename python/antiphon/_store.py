"""Frame stores: features with one label per frame, and minibatches of them."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from . import _core
from ._arguments import (INT64, UINT64, Floats, Integers, PathLike, existing_or_remote, path_text, real_number,
                         require_list, whole_number)
from ._errors import UsageError


class Utterance(NamedTuple):
    """One utterance of a frame store."""

    id: str
    """As the tables have it that the store was made of."""
    speaker: str
    """Whose it is."""
    num_frames: int
    """How many frames it has."""
    weight: float
    """By which the loss of its frames is multiplied."""


class Minibatch(NamedTuple):
    """Frames to learn from. The arrays share one block of memory that is theirs alone: they may be kept, changed, and
    handed on by DLPack (torch.from_dlpack, torch.from_numpy) without a copy.
    """

    features: Floats
    """[frames, feature_dim · (left_context + 1 + right_context)]."""
    labels: Integers
    """[frames], the pdf-ids."""
    weights: Floats
    """[frames], by which the loss is multiplied."""
    frame_ids: npt.NDArray[np.int64]
    """[frames], places in the store, counted through all utterances."""


class Minibatches:
    """One epoch of a frame store: every frame once. Further minibatches are prepared while one is in use. Threads may
    share it: each minibatch goes to one of them."""

    def __init__(self, core: _core.Minibatches) -> None:
        """FrameStore.minibatches makes it."""
        self._core = core

    def __len__(self) -> int:
        """How many there are in the epoch."""
        return len(self._core)

    def __iter__(self) -> Iterator[Minibatch]:
        """Those that were not handed out yet."""
        return self

    def __next__(self) -> Minibatch:
        """The next one."""
        return Minibatch(*next(self._core))


class FrameStore:
    """A frame store that `antiphon store` made.

        store = antiphon.FrameStore("exp/store")
        for epoch in range(5):
            for batch in store.minibatches(256, epoch=epoch):
                loss = criterion(network(torch.from_numpy(batch.features)), torch.from_numpy(batch.labels).long())

    It is mapped, and need not fit in memory. Pickled, it is opened anew from its folder. May be used by many threads at
    once. One on a server has to be opened anew in a forked process, as workers of a DataLoader are: UsageError
    otherwise.
    """

    def __init__(self, folder: PathLike, *, cache: Optional[PathLike] = None, cache_limit_gb: float = 50.0) -> None:
        """FileNotFoundError if `folder` is not there, InputError if it is damaged or no store.

        `folder` may be an address: http://…, https://…, s3://BUCKET/PREFIX. What is read of it comes into the folder
        `cache` of this machine, which holds at most so many 10^9 bytes.
        """
        self._place_and_cache = (existing_or_remote(folder, "frame store"),
                                 path_text(cache, "cache") if cache is not None else "",
                                 real_number(cache_limit_gb, "cache_limit_gb"))
        self._core = _core.FrameStore(*self._place_and_cache)
        self._utterances = tuple(Utterance(*utterance) for utterance in self._core.utterances())

    def __repr__(self) -> str:
        return f"<antiphon.FrameStore {self._place_and_cache[0]!r}: {len(self._utterances)} utterances, " \
               f"{self.num_frames} frames>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, self._place_and_cache  # anew where it is unpickled: workers of a DataLoader that are spawned

    @property
    def feature_dim(self) -> int:
        """Values per frame, without context."""
        return self._core.feature_dim

    @property
    def num_labels(self) -> int:
        """Labels are 0 … num_labels − 1."""
        return self._core.num_labels

    @property
    def num_frames(self) -> int:
        """Frames of all utterances."""
        return self._core.num_frames

    @property
    def labelled(self) -> bool:
        """False for speech without alignment, whose labels mean nothing."""
        return self._core.labelled

    @property
    def front_end(self) -> str:
        """Options of the front end that made the features, as TOML (FrontEnd takes them); "" if the store does not know
        them."""
        return self._core.front_end

    @property
    def utterances(self) -> tuple[Utterance, ...]:
        """In the order of the store."""
        return self._utterances

    def features(self, utterance: int) -> Floats:
        """Frames [frames, feature_dim] of an utterance, by its place in `utterances`, normalised as the store is."""
        return self._core.features(self._place(utterance))

    def labels(self, utterance: int) -> Integers:
        """One label per frame of an utterance."""
        return self._core.labels(self._place(utterance))

    def count_labels(self) -> npt.NDArray[np.int64]:
        """How often each label is there: what a model's priors are made of."""
        return self._core.count_labels()

    def moments(self) -> tuple[Floats, Floats]:
        """Mean and inverse standard deviation of each feature, for the first layer of a network."""
        return self._core.moments()

    def minibatches(self, size: int, *, epoch: int = 0, left_context: int = 5, right_context: int = 5,
                    shuffle: bool = True, seed: int = 1, utterances: Optional[Iterable[int]] = None,
                    prefetch: int = 2, shards_at_once: int = 0) -> Minibatches:
        """Minibatches of `size` frames in the order in which `antiphon train` reads them, the last one smaller.

        `left_context`, `right_context`: frames beside the current one, the first or last repeated beyond the ends.
        `epoch` and `seed` decide the order. `shuffle=False`: as the store has them. `utterances`: places of those to
        read, all by default. `prefetch`: how many are prepared ahead, by threads of their own. `shards_at_once`: shards
        that are read and shuffled together, so that a cache need not hold more than these and the next; 0: all.
        """
        settings = _core.MinibatchSettings()
        settings.minibatch = whole_number(size, "size")
        settings.left_context = whole_number(left_context, "left_context")
        settings.right_context = whole_number(right_context, "right_context")
        settings.shuffle = bool(shuffle)
        settings.seed = whole_number(seed, "seed", UINT64)
        settings.prefetch = whole_number(prefetch, "prefetch")
        settings.shards_at_once = whole_number(shards_at_once, "shards_at_once")
        if utterances is not None:
            require_list(utterances, "utterances", "places in the store")
            settings.utterances = [self._place(utterance) for utterance in utterances]
            if not settings.utterances:
                raise UsageError("utterances: expected at least one")
        return Minibatches(_core.Minibatches(self._core, settings, whole_number(epoch, "epoch", INT64)))

    def _place(self, utterance: int) -> int:
        place = whole_number(utterance, "utterance", INT64)
        if not 0 <= place < len(self._utterances):
            raise IndexError(f"utterance {place}: the store has {len(self._utterances)}, counted from 0")
        return place


def _opened(folder: str, cache: str, cache_limit_gb: float) -> FrameStore:
    return FrameStore(folder, cache=cache or None, cache_limit_gb=cache_limit_gb)
