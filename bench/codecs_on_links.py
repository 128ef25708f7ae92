#!/usr/bin/env python3
"""Synchronous SGD over slow links: what codecs gain, measured, and what the simulated cluster says of the same runs.

Trains one network by two workers on two "machines" (network namespaces, bench/shaped_links.py) with each codec, and again with
parallel.world = "simulated", whose device speed comes from one run without exchange and whose link is the one asked for. Nothing
is fitted to the runs that are compared. Prints one line per codec and rate: frames/s of the steps, bytes, and the ratio of the
simulated to the measured time. Needs root.

  bench/codecs_on_links.py --program build/release/antiphon --rates-mbit 100 1000
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CODECS = {
    "fp32": [],
    "bf16": ["--set", "parallel.codec.type=bf16"],
    "one-bit": ["--set", "parallel.codec.type=one-bit"],
    "top-k": ["--set", "parallel.codec.type=top-k"],
}
DIM, CONTEXT, SENONES = 40, 5, 400
CONFIG = """
[data]
minibatch = 256
left-context = {context}
right-context = {context}
[schedule]
epochs = 1
learning-rate = 0.05
final-learning-rate = 0.05
[held-out]
fraction = 0.05
[parallel]
method = "ssgd"
workers = {workers}
[[network.layer]]
type = "affine"
dim = {width}
[[network.layer]]
type = "relu"
[[network.layer]]
type = "affine"
dim = {width}
[[network.layer]]
type = "relu"
[[network.layer]]
type = "affine"
dim = {width}
[[network.layer]]
type = "relu"
[[network.layer]]
type = "affine"
"""


def make_store(program, folder, frames):
    rng = random.Random(1)
    with open(folder / "feats.ark", "w") as feats, open(folder / "pdf.ark", "w") as pdfs, \
            open(folder / "utt2spk", "w") as speakers:
        for u in range(frames // 500):
            rows = "\n  ".join(" ".join(f"{rng.gauss(0, 1):.2f}" for _ in range(DIM)) for _ in range(500))
            feats.write(f"u{u:04}  [\n  {rows} ]\n")
            pdfs.write(f"u{u:04} " + " ".join(str(rng.randrange(SENONES)) for _ in range(500)) + "\n")
            speakers.write(f"u{u:04} s{u % 20}\n")
    subprocess.run([program, "store", "--features", f"ark:{folder}/feats.ark", "--alignment", f"ark:{folder}/pdf.ark",
                    "--utt2spk", f"{folder}/utt2spk", "--num-pdfs", str(SENONES), "--out", f"{folder}/store"],
                   check=True, capture_output=True)


def result_of(command, errors):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, stdin=subprocess.DEVNULL,
                          env=dict(os.environ, OMP_WAIT_POLICY="passive"))
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        sys.exit(f"{' '.join(map(str, command))} ended with status {done.returncode} and no result")
    return json.loads(lines[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/antiphon")
    parser.add_argument("--rates-mbit", type=float, nargs="+", default=[100, 1000])
    parser.add_argument("--codecs", nargs="+", default=list(CODECS), choices=list(CODECS))
    parser.add_argument("--width", type=int, default=1024, help="units of the three hidden layers")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--verbose", action="store_true", help="show what the runs print")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    errors = None if options.verbose else subprocess.DEVNULL
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        make_store(program, folder, int(options.steps * 512 / 0.95) + 1000)
        for workers in (1, 2):
            (folder / f"{workers}.toml").write_text(CONFIG.format(context=CONTEXT, width=options.width, workers=workers))

        def train(name, workers, *arguments):
            return [program, "train", "--config", f"{folder}/{workers}.toml", "--store", f"{folder}/store", "--out",
                    f"{folder}/{name}", "--threads", "1", "--json", *arguments]

        alone = result_of(train("alone", 1), errors)
        inputs = DIM * (2 * CONTEXT + 1)
        weights = inputs * options.width + 2 * options.width**2 + options.width * SENONES
        # 2 operations per weight forward, 2 for the gradient, 2 for the way back but in the lowest layer.
        gflops = (6 * weights - 2 * inputs * options.width) * alone["frames_per_second"] / 1e9
        print(f"{weights / 1e6:.2f} M weights; one worker alone {alone['frames_per_second']:.0f} frames/s, {gflops:.1f} GFLOP/s")
        print("rate_mbit codec    frames/s  times_fp32  MB_sent  seconds  simulated_seconds  simulated/measured")
        for rate in options.rates_mbit:
            fp32 = None
            for codec in options.codecs:
                name = f"{codec}-{rate:g}"
                measured = result_of([HERE / "shaped_links.py", "--machines", "2", "--rate-mbit", str(rate), "--",
                                      *train(name, 2, *CODECS[codec])], errors)
                simulated = result_of(
                    train(name + "-simulated", 2, *CODECS[codec], "--set", "parallel.world=simulated", "--set",
                          f"cluster.host.gflops={gflops}", "--set", f"cluster.links.between.bandwidth-mb-s={rate / 8}"),
                    errors)
                seconds = measured["frames"] / measured["frames_per_second"]
                fp32 = fp32 or measured["frames_per_second"]
                print(f"{rate:9g} {codec:8} {measured['frames_per_second']:8.0f} {measured['frames_per_second'] / fp32:11.2f} "
                      f"{measured['bytes_sent'] / 1e6:8.1f} {seconds:8.2f} {simulated['virtual_seconds']:18.2f} "
                      f"{simulated['virtual_seconds'] / seconds:19.2f}", flush=True)


if __name__ == "__main__":
    main()
