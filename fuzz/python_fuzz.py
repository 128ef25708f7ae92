"""Calls the Python package with arguments that are wrong in all ways: it may raise what it says it raises, and must not
end the interpreter. fuzz/run_python makes what it needs and runs it.

Usage: python fuzz/python_fuzz.py SYSTEM [options of libFuzzer, such as -max_total_time=600]

SYSTEM: a folder as tests/program/small_system.py makes it.
"""

import math
import os
import pathlib
import sys
import tempfile
import warnings

import atheris
import numpy as np

with atheris.instrument_imports(include=["antiphon"]):
    import antiphon

TYPES = (np.float32, np.float64, np.int16, np.int32, np.complex64, np.bool_)


class OfCallback(Exception):
    """What a callback raises."""


ALLOWED = (antiphon.Error, TypeError, ValueError, OSError, IndexError, OverflowError, StopIteration, OfCallback)
RATES = (8000, 16000, 44100, 1000, 0, -1, 384001)
warnings.simplefilter("ignore")


def array(data):
    """Any shape up to three dimensions, any type, any values."""
    shape = tuple(data.ConsumeIntInRange(0, 50) for _ in range(data.ConsumeIntInRange(0, 3)))
    kind = TYPES[data.ConsumeIntInRange(0, len(TYPES) - 1)]
    size = math.prod(shape) * np.dtype(kind).itemsize
    values = np.frombuffer(data.ConsumeBytes(size).ljust(size, b"\7"), dtype=np.uint8)
    if kind == np.bool_:
        values = values & 1
    return values.view(kind).reshape(shape)


def thing(data):
    """Anything that a caller may pass by mistake."""
    choices = (lambda: None, lambda: data.ConsumeInt(8), lambda: data.ConsumeFloat(), lambda: array(data),
               lambda: data.ConsumeUnicodeNoSurrogates(20), lambda: data.ConsumeBytes(200), lambda: [array(data)],
               lambda: {"kind": data.ConsumeUnicodeNoSurrogates(5)}, lambda: array(data)[::2], lambda: array(data).T,
               lambda: data.ConsumeUnicode(5), lambda: SYSTEM / "corpus/s0-u00.wav", lambda: object())
    return choices[data.ConsumeIntInRange(0, len(choices) - 1)]()


def sound(data):
    """Samples, or something else."""
    if data.ConsumeBool():
        return thing(data)
    count = data.ConsumeIntInRange(0, 3000)
    values = np.frombuffer(data.ConsumeBytes(2 * count).ljust(2 * count, b"\3"), dtype=np.int16)
    return values if data.ConsumeBool() else values.astype(np.float32) / 32768


def rate(data):
    """A rate, or something else."""
    return RATES[data.ConsumeIntInRange(0, len(RATES) - 1)] if data.ConsumeBool() else thing(data)


def damaged(data, path):
    """A copy of a file with a part of it exchanged."""
    content = bytearray((SYSTEM / path).read_bytes())
    place = data.ConsumeIntInRange(0, len(content))
    new = data.ConsumeBytes(100)
    content[place:place + data.ConsumeIntInRange(0, 100)] = new
    copy = os.path.join(FOLDER, "damaged" + pathlib.Path(path).suffix)
    with open(copy, "wb") as file:
        file.write(content)
    return copy


def random_file(data, name):
    """A file of anything."""
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as file:
        file.write(data.ConsumeBytes(400))
    return path


def use_stream(data):
    """Some calls on a stream, also after its end."""
    settings = ("nbest", "hotwords", "word_list", "max_utterance", "step_frames", "profile", "memory", "cancel",
                "no_setting")
    chosen = settings[data.ConsumeIntInRange(0, len(settings) - 1)]
    given = antiphon.SpeakerMemory("x") if chosen == "memory" and data.ConsumeBool() else thing(data)
    stream = RECOGNIZER.stream(rate(data), partial=data.ConsumeBool(), **{chosen: given})
    for _ in range(data.ConsumeIntInRange(0, 4)):
        (lambda: stream.accept(sound(data)), stream.end, lambda: (stream.audio_remarks, stream.memory),
         lambda: stream.__exit__(None, None, None))[data.ConsumeIntInRange(0, 3)]()


def raising(data):
    """A callback that may raise."""
    def callback(_):
        if data.ConsumeBool():
            raise OfCallback
    return callback


def cancelled(data):
    """Calls that are stopped before they begin, by their own callback, or by what is no token."""
    token = antiphon.CancelToken()
    if data.ConsumeBool():
        token.cancel()
    given = thing(data) if data.ConsumeBool() else token
    file = SYSTEM / "corpus/s0-u00.wav"
    (lambda: RECOGNIZER.recognize(file, progress=lambda _: token.cancel(), cancel=given),
     lambda: ALIGNER.align(file, "A B", cancel=given),
     lambda: RECOGNIZER.stream(8000, cancel=given).accept(sound(data)),
     lambda: antiphon.train_g2p(random_file(data, "lexicon.txt"), os.path.join(FOLDER, "x.g2p"), cancel=given),
     lambda: antiphon.Compressor(SYSTEM / "net/model.safetensors", "svd").run(os.path.join(FOLDER, "svd"), cancel=given),
     lambda: antiphon.check_corpus(SYSTEM / "corpus", lexicon=SYSTEM / "lexicon.txt", cancel=given)
     )[data.ConsumeIntInRange(0, 5)]()


def remember(data):
    """Memories of speakers, and files that are none."""
    memory = antiphon.SpeakerMemory(data.ConsumeUnicodeNoSurrogates(20))
    RECOGNIZER.recognize(sound(data), rate(data), memory=memory if data.ConsumeBool() else thing(data),
                         profile=thing(data))
    file = os.path.join(FOLDER, "memory.safetensors")
    RECOGNIZER.save_memory(memory, file)
    RECOGNIZER.load_memory(file if data.ConsumeBool() else random_file(data, "x.safetensors"))


def align_with(data):
    """An aligner of one's own settings, and what its result can be written as."""
    settings = ("beam", "retry_beam", "adapt", "precision", "options", "no_setting")
    chosen = settings[data.ConsumeIntInRange(0, len(settings) - 1)]
    aligner = antiphon.Aligner(SYSTEM / "net", SYSTEM / "lexicon.txt", **{chosen: thing(data)})
    found = aligner.align(SYSTEM / "corpus/s0-u00.wav", "A B", channel=thing(data) if data.ConsumeBool() else None)
    return found.json(), found.ctm(thing(data), phones=data.ConsumeBool(), channel=thing(data)), found.textgrid()


def take_apart(data):
    """What a model gives, in the wrong places."""
    model = antiphon.Model(damaged(data, "net/model.safetensors"))
    model.score(thing(data))
    return model.tensors(), model.network, model.features


CALLS = (
    lambda data: MODEL.score(thing(data)),
    lambda data: FRONT_END(sound(data), rate(data), thing(data)),
    lambda data: antiphon.FrontEnd(thing(data), kind=thing(data)),
    lambda data: antiphon.FrontEnd(data.ConsumeUnicodeNoSurrogates(100)),
    lambda data: antiphon.FrontEnd.standard(thing(data), rate(data), mel_bins=thing(data)),
    lambda data: STORE.features(thing(data)),
    lambda data: STORE.labels(thing(data)),
    lambda data: next(iter(STORE.minibatches(thing(data), left_context=thing(data), utterances=thing(data)))),
    lambda data: antiphon.write_table(os.path.join(FOLDER, "y.ark"), [(thing(data), thing(data))]),
    lambda data: list(antiphon.read_table(random_file(data, "x.ark"))),
    lambda data: list(antiphon.read_table(damaged(data, "feats/feats.scp"))),
    lambda data: antiphon.Model(random_file(data, "x.safetensors")),
    take_apart,
    lambda data: antiphon.Recognizer(thing(data)),
    lambda data: antiphon.Recognizer(SYSTEM / "net", SYSTEM / "graph", beam=thing(data), hotwords=thing(data)),
    lambda data: antiphon.Recognizer(SYSTEM / "net", SYSTEM / "graph", word_list=thing(data), options=thing(data)),
    lambda data: antiphon.Recognizer(SYSTEM / "net", thing(data), nbest=thing(data), precision=thing(data)),
    lambda data: antiphon.Recognizer(damaged(data, "net/model.safetensors"), SYSTEM / "graph"),
    lambda data: RECOGNIZER.recognize(sound(data), rate(data), nbest=thing(data)),
    lambda data: RECOGNIZER.recognize(thing(data), channel=thing(data)),
    lambda data: RECOGNIZER.recognize(damaged(data, "corpus/s0-u00.wav")),
    lambda data: RECOGNIZER.recognize((SYSTEM / "corpus/s0-u00.wav").read_bytes()[:data.ConsumeIntInRange(0, 100)]),
    use_stream,
    cancelled,
    remember,
    align_with,
    lambda data: RECOGNIZER.recognize(sound(data), 8000, progress=raising(data)),
    lambda data: RECOGNIZER.load_profile(random_file(data, "x.profile")),
    lambda data: antiphon.write_table(os.path.join(FOLDER, "y.ark"), thing(data), text=data.ConsumeBool()),
    lambda data: ALIGNER.align(sound(data), thing(data), rate(data)),
    lambda data: ALIGNER.align(SYSTEM / "corpus/s0-u00.wav", data.ConsumeUnicode(30)),
    lambda data: antiphon.Aligner(SYSTEM / "net", random_file(data, "lexicon.txt")),
    lambda data: antiphon.Aligner(thing(data), thing(data)),
    lambda data: antiphon.train_g2p(random_file(data, "lexicon.txt"), os.path.join(FOLDER, "x.g2p"), order=thing(data)),
    lambda data: antiphon.G2p(random_file(data, "x.g2p")),
    lambda data: antiphon.train(thing(data), os.path.join(FOLDER, "run"), log_to=thing(data)),
    lambda data: antiphon.train(SYSTEM / "store", os.path.join(FOLDER, "run"), network=thing(data), seed=thing(data)),
    lambda data: antiphon.Compressor(SYSTEM / "net/model.safetensors", thing(data), store=thing(data)),
    lambda data: antiphon.Adapter(thing(data), store=thing(data), kld=thing(data)),
    lambda data: antiphon.decode(SYSTEM / "net/model.safetensors", SYSTEM / "corpus/s0-u00.wav", OUT,
                                 graph=SYSTEM / "graph", nbest=thing(data), hotwords=thing(data)),
    lambda data: antiphon.decode(damaged(data, "net/model.safetensors"), SYSTEM / "corpus/s0-u00.wav", OUT,
                                 graph=SYSTEM / "graph"),
    lambda data: antiphon.align(SYSTEM / "corpus/s0-u00.wav", OUT, model=SYSTEM / "net/model.safetensors",
                                lexicon=random_file(data, "lexicon.txt"), files=thing(data),
                                transcripts=random_file(data, "text.tsv")),
)


def one_input(bytes_):
    """One call."""
    data = atheris.FuzzedDataProvider(bytes_)
    call = CALLS[data.ConsumeIntInRange(0, len(CALLS) - 1)]
    try:
        call(data)
    except antiphon.InternalError:
        raise
    except ALLOWED:
        pass


if __name__ == "__main__":
    SYSTEM = pathlib.Path(sys.argv[1])
    FOLDER = tempfile.mkdtemp()
    OUT = os.path.join(FOLDER, "out")
    MODEL, STORE = antiphon.Model(SYSTEM / "net/model.safetensors"), antiphon.FrameStore(SYSTEM / "store")
    FRONT_END = antiphon.FrontEnd(kind="mfcc")
    RECOGNIZER = antiphon.Recognizer(SYSTEM / "net/model.safetensors", SYSTEM / "graph", threads=1)
    ALIGNER = antiphon.Aligner(SYSTEM / "net/model.safetensors", SYSTEM / "lexicon.txt")
    atheris.Setup([sys.argv[0], *sys.argv[2:]], one_input)
    atheris.Fuzz()
