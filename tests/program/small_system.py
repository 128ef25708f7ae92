"""A system that recognises two tones as words, from recordings to a decoding graph, made by the program under test.

PROGRAM has to be set first. Everything of a system lies in one folder: corpus, lexicon.txt, gmm, align, feats, store,
net and other (two networks), graph.
"""

import importlib.util
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
RATE = 8000
TONES = {"A": 400.0, "B": 1300.0}
NETWORK = """
[[network.layer]]
type = "affine"
dim = 16
[[network.layer]]
type = "relu"
[[network.layer]]
type = "affine"
"""
# Scores every third frame, as chain models do.
CHAIN_NETWORK = """
[[network.layer]]
type = "tdnn"
dim = 16
stride = 3
[[network.layer]]
type = "relu"
[[network.layer]]
type = "affine"
"""


def has(package):
    return importlib.util.find_spec(package) is not None


def go_on_where_packages_are(source):
    """Begins the test again by the Python of the developers' environment, where that is another one."""
    python = pathlib.Path(source) / ".venv/bin/python"
    if python.exists() and pathlib.Path(sys.prefix).name != ".venv":
        os.execv(python, [str(python), *sys.argv])


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=100)


def must(*arguments):
    result = run(*arguments)
    if result.returncode != 0:
        raise AssertionError(f"{arguments}: {result.stderr}")
    return result


def call(*arguments, **options):
    """What another program prints."""
    result = subprocess.run([str(a) for a in arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=200, **options)
    if result.returncode != 0:
        raise AssertionError(f"{arguments}: {result.stdout[-3000:]}{result.stderr[-3000:]}")
    return result.stdout


def wav_bytes(samples, rate=RATE, code=1):
    data = struct.pack(f"<{len(samples)}{'h' if code == 1 else 'f'}", *samples)
    width = 2 if code == 1 else 4
    header = struct.pack("<IHHIIHH", 16, code, 1, rate, rate * width, width, 8 * width)
    chunks = b"WAVEfmt " + header + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks


def stereo_bytes(left, right):
    """A WAV file with these two channels."""
    length = max(len(left), len(right))
    both = [sample for pair in zip(left + [0] * (length - len(left)), right + [0] * (length - len(right)))
            for sample in pair]
    data = struct.pack(f"<{len(both)}h", *both)
    header = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 2, RATE, 4 * RATE, 4,
                         16, b"data", len(data))
    return header + data


def speech(words, random_):
    samples = []
    for word in ["", *words, ""]:
        length = int(RATE * random_.uniform(0.2, 0.3))
        tone = TONES.get(word, 0.0)
        samples += [int(random_.gauss(0, 40) + (6000 if word else 0) * math.sin(2 * math.pi * tone * t / RATE))
                    for t in range(length)]
    return samples


def make_corpus(folder):
    folder.mkdir()
    random_ = random.Random(1)
    scp, text, speakers = [], [], []
    for number in range(24):
        utt_id, speaker = f"s{number % 4}-u{number:02}", f"s{number % 4}"
        words = [random_.choice("AB") for _ in range(3)]
        (folder / f"{utt_id}.wav").write_bytes(wav_bytes(speech(words, random_)))
        scp.append(f"{utt_id} {folder / utt_id}.wav\n")
        text.append(f"{utt_id} {' '.join(words)}\n")
        speakers.append(f"{utt_id} {speaker}\n")
    for name, lines in (("wav.scp", scp), ("text", text), ("utt2spk", speakers)):
        (folder / name).write_text("".join(sorted(lines)))


def make_system(root):
    make_corpus(root / "corpus")
    (root / "lexicon.txt").write_text("<SIL> SIL\nA a\nB b\n")
    (root / "grammar.txt").write_text("0 0 A\n0 0 B\n0\n")
    (root / "net.toml").write_text(NETWORK)
    must("features", root / "corpus", "--out", root / "gmm", "--sample-rate", RATE, "--kind", "mfcc", "--ceps", 13)
    must("align", "--data", root / "gmm", "--lexicon", root / "lexicon.txt", "--out", root / "align", "--last-stage",
         "mono")
    must("features", root / "corpus", "--out", root / "feats", "--sample-rate", RATE)
    must("store", "--features", root / "feats/feats.scp", "--cmvn", root / "feats/cmvn.scp", "--utt2spk",
         root / "feats/utt2spk", "--alignment", root / "align/pdf.scp", "--out", root / "store")
    for name, seed in (("net", 1), ("other", 2)):
        must("train", "--config", root / "net.toml", "--store", root / "store", "--hmm",
             root / "align/model.safetensors", "--front-end", root / "feats/front_end.toml", "--out", root / name,
             "--set", "data.minibatch=64", "--set", "schedule.epochs=3", "--seed", seed)
    must("graph", "--model", root / "align/model.safetensors", "--lexicon", root / "lexicon.txt", "--grammar",
         root / "grammar.txt", "--out", root / "graph")


class SystemTest(unittest.TestCase):
    """Its cases share one system, in the folder `root`."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temporary.name)
        make_system(cls.root)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()
