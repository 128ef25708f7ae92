"""Makes the seed corpora: small valid files of every kind that a fuzz target reads, and some that are just wrong.

Usage: make_corpora.py FOLDER. Needs the standard library only.
"""

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


TARGETS = {
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
