"""Calls the Python package with arguments that are wrong in all ways: it may raise, and must not end the interpreter.

Usage: python fuzz/python_fuzz.py MODEL STORE [options of libFuzzer, such as -max_total_time=600]

MODEL: a model file; STORE: its frame store. Without the package atheris it says so and ends with status 77.
"""

import importlib.util
import os
import sys
import tempfile

if importlib.util.find_spec("atheris") is None:
    print("skipped: there is no Python package atheris")
    sys.exit(77)

import atheris  # noqa: E402
import numpy as np  # noqa: E402

import antiphon  # noqa: E402

MODEL, STORE = sys.argv[1:3]
TYPES = (np.float32, np.float64, np.int16, np.int32, np.complex64, np.bool_)


def array(data):
    """Any shape up to three dimensions, any type, any values."""
    shape = tuple(data.ConsumeIntInRange(0, 50) for _ in range(data.ConsumeIntInRange(0, 3)))
    kind = TYPES[data.ConsumeIntInRange(0, len(TYPES) - 1)]
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    return np.frombuffer(data.ConsumeBytes(size).ljust(size, b"\7"), dtype=kind).reshape(shape)


def thing(data):
    """Anything that a caller may pass by mistake."""
    choices = (lambda: None, lambda: data.ConsumeInt(8), lambda: data.ConsumeFloat(), lambda: array(data),
               lambda: data.ConsumeUnicodeNoSurrogates(20), lambda: data.ConsumeBytes(200), lambda: [array(data)],
               lambda: {"kind": data.ConsumeUnicodeNoSurrogates(5)})
    return choices[data.ConsumeIntInRange(0, len(choices) - 1)]()


def one_input(bytes_):
    """One call."""
    data = atheris.FuzzedDataProvider(bytes_)

    def table():
        path = os.path.join(FOLDER, "x.ark")
        with open(path, "wb") as file:
            file.write(data.ConsumeBytes(400))
        list(antiphon.read_table(path))

    def model_file():
        path = os.path.join(FOLDER, "x.safetensors")
        with open(path, "wb") as file:
            file.write(data.ConsumeBytes(400))
        antiphon.Model(path)

    calls = (
        lambda: OPEN_MODEL.score(thing(data)),
        lambda: FRONT_END(thing(data), thing(data)),
        lambda: antiphon.FrontEnd(thing(data), kind=thing(data)),
        lambda: antiphon.FrontEnd(data.ConsumeUnicodeNoSurrogates(100)),
        lambda: OPEN_STORE.features(thing(data)),
        lambda: next(iter(OPEN_STORE.minibatches(thing(data), left_context=thing(data), utterances=thing(data)))),
        lambda: antiphon.write_table(os.path.join(FOLDER, "y.ark"), [(thing(data), thing(data))]),
        lambda: antiphon.Recognizer(thing(data)),
        lambda: antiphon.train(thing(data), os.path.join(FOLDER, "run"), log_to=thing(data)),
        table,
        model_file,
    )
    try:
        calls[data.ConsumeIntInRange(0, len(calls) - 1)]()
    except antiphon.InternalError:
        raise
    except (antiphon.Error, TypeError, ValueError, OSError, IndexError, OverflowError, StopIteration):
        pass


if __name__ == "__main__":
    FOLDER = tempfile.mkdtemp()
    OPEN_MODEL, OPEN_STORE, FRONT_END = antiphon.Model(MODEL), antiphon.FrameStore(STORE), antiphon.FrontEnd()
    atheris.Setup([sys.argv[0], *sys.argv[3:]], one_input)
    atheris.Fuzz()
