"""Antiphon: trains, compresses, adapts and runs acoustic models of speech recognisers.

    recognizer = antiphon.Recognizer("exp/mine")
    print(recognizer.recognize("call.wav").text)

Everything here runs on the library that the program `antiphon` runs on, and gives the same numbers. Long calls let
other Python threads run; Ctrl-C ends them, and from another thread a CancelToken. A Recognizer, a Model, a FrontEnd and
a FrameStore may be used by many threads at once. What goes wrong raises a class of Error, whose text reads from what was
asked for down to the cause; an argument of the wrong type raises TypeError, a file that is not there FileNotFoundError.
What the library says on its way goes to the logger "antiphon" of Python's logging.
"""

from . import _logging
from ._arguments import Audio, Samples
from ._aligner import AlignedPhone, AlignedWord, Aligner, Alignment, UnalignedPart
from ._core import CancelToken, SpeakerMemory, SpeakerProfile, version as _version
from ._corpus import (AlignmentResult, CorpusCheck, CorpusRemark, DecodingResult, TunedWeights, WordErrors, align,
                      check_corpus, decode)
from ._errors import (Cancelled, DivergenceError, Error, FileError, InputError, InternalError, OutOfMemoryError,
                      PeerError, UsageError)
from ._features import FrontEnd
from ._g2p import G2p, Pronunciation, train_g2p
from ._improvement import (AdaptationMeasures, AdaptationResult, Adapter, CompressionResult, CompressionStage,
                           Compressor)
from ._model import Model
from ._recognizer import Hypothesis, Recognition, Recognizer, Stream, StreamEvent, Word
from ._store import FrameStore, Minibatch, Minibatches, Utterance
from ._tables import read_table, write_table
from ._training import TrainingResult, train

__version__: str = _version
_logging.start()

__all__ = [
    "AdaptationMeasures", "AdaptationResult", "Adapter", "AlignedPhone", "AlignedWord", "Aligner", "Alignment",
    "AlignmentResult", "Audio", "CancelToken", "Cancelled", "CompressionResult", "CompressionStage", "Compressor",
    "CorpusCheck", "CorpusRemark", "DecodingResult", "DivergenceError", "Error", "FileError", "FrameStore", "FrontEnd",
    "G2p", "Hypothesis", "InputError", "InternalError", "Minibatch", "Minibatches", "Model", "OutOfMemoryError",
    "PeerError", "Pronunciation", "Recognition", "Recognizer", "Samples", "SpeakerMemory", "SpeakerProfile", "Stream",
    "StreamEvent", "TrainingResult", "TunedWeights", "UnalignedPart", "UsageError", "Utterance", "Word", "WordErrors",
    "align", "check_corpus", "decode", "read_table", "train", "train_g2p", "write_table",
]
