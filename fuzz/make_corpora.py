"""Makes the seed corpora: small valid files of every kind that a fuzz target reads, and some that are just wrong.

Usage: make_corpora.py FOLDER. Needs the standard library only.
"""

import gzip
import io
import json
import pathlib
import struct
import sys
import wave


def config():
    yield b'title = "demo"\nseed = 7\n\n[options]\ncount = 3\nrate = 0.25\nsizes = [1, 2]\n'
    yield b'[[layer]]\ntype = "affine"\ndim = 2048\n\n[[layer]]\ntype = "sigmoid"\n'
    yield b"a.b.c = [1.5e3, inf, nan]\nd = { x = 1, y = 'z' }\ne = 1979-05-27T07:32:00Z\n"
    yield b'[options]\nname = """a\nb"""\nflag = true\nrates = [0.1, 1]\n[a]\nb = "x"\n'


def ark():
    """The first byte chooses the kind: matrices, vectors, integer vectors, a script."""
    def int32(value):
        return b"\x04" + struct.pack("<i", value)

    floats = struct.pack("<6f", 1, -2.5, 3, 0, 1e-3, 7)
    matrix = b"\0BFM " + int32(2) + int32(3) + floats
    yield b"\0utt1 " + matrix + b"utt2 " + matrix
    yield b"\0utt1 \0BDM " + int32(1) + int32(2) + struct.pack("<2d", 0.5, 2)
    yield b"\0utt1  [\n  1 2 3\n  4 -5e-1 6 ]\nutt2  [ ]\n"
    header = struct.pack("<ffii", -1.0, 2.0, 2, 3)
    yield b"\0utt1 \0BCM " + header + struct.pack("<12H", *range(0, 48000, 4000)) + bytes(range(6))
    yield b"\0utt1 \0BCM2 " + header + struct.pack("<6H", *range(6))
    yield b"\0utt1 \0BCM3 " + header + bytes(range(6))
    yield b"\0" + gzip.compress(b"utt1 " + matrix, mtime=0)
    yield b"\1utt1 \0BFV " + int32(6) + floats + b"utt2 \0BDV " + int32(1) + struct.pack("<d", 3)
    yield b"\1utt1  [ 1 2 nan ]\n"
    yield b"\2utt1 \0B" + int32(3) + int32(5) + int32(6) + int32(7)
    yield b"\2utt1 5 6 7\nutt2 \n"
    yield b"\3utt1 x.ark:5\nutt2 x.ark:5[0:1]\nutt3 x.ark\n"
    # Sizes that lie.
    yield b"\0utt1 \0BFM " + int32(2**30) + int32(2**30) + floats
    yield b"\2utt1 \0B" + int32(-1)


TARGETS = {
    "ark": ark,
    "config": config,
}


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, seeds in TARGETS.items():
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds()):
            (target / f"seed{number:03d}").write_bytes(seed)


if __name__ == "__main__":
    main()
