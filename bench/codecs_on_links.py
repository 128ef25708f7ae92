#!/usr/bin/env python3
"""Synchronous SGD over slow links: what codecs gain and a divided optimiser costs, measured, and what the simulated cluster says of the same runs.

Trains one network by two workers on two "machines" (network namespaces, bench/shaped_links.py) with each codec, and again with
parallel.world = "simulated" on the cluster that `antiphon bench comm` describes on these links, and on devices of the speed that
two workers reach who train at the same time and exchange nothing (cores share caches and clocks). Nothing is fitted to the runs that are compared. Prints one line per codec and rate: frames/s of the
steps, measured and simulated, bytes, and the error of the simulated time. Needs root. --rates-mbit 0: processes on one machine
that share memory; -1: threads of one process.

  bench/codecs_on_links.py --program build/release/antiphon --rates-mbit 100 1000
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import shaped_links

CODECS = {
    "fp32": [],
    "bf16": ["--set", "parallel.codec.type=bf16"],
    "one-bit": ["--set", "parallel.codec.type=one-bit"],
    "top-k": ["--set", "parallel.codec.type=top-k"],
    "divided": ["--set", "parallel.divide=gradients"],
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
type = "repeat"
times = 3
layers = [{{ type = "affine", dim = {width} }}, {{ type = "relu" }}]
[[network.layer]]
type = "affine"
"""


def make_store(program, folder, frames, dim=DIM, senones=SENONES):
    rng = random.Random(1)
    with open(folder / "feats.ark", "w") as feats, open(folder / "pdf.ark", "w") as pdfs, \
            open(folder / "utt2spk", "w") as speakers:
        for u in range(frames // 500):
            rows = "\n  ".join(" ".join(f"{rng.gauss(0, 1):.2f}" for _ in range(dim)) for _ in range(500))
            feats.write(f"u{u:04}  [\n  {rows} ]\n")
            pdfs.write(f"u{u:04} " + " ".join(str(rng.randrange(senones)) for _ in range(500)) + "\n")
            speakers.write(f"u{u:04} s{u % 20}\n")
    subprocess.run([program, "store", "--features", f"ark:{folder}/feats.ark", "--alignment", f"ark:{folder}/pdf.ark",
                    "--utt2spk", f"{folder}/utt2spk", "--num-pdfs", str(senones), "--out", f"{folder}/store"],
                   check=True, capture_output=True)


def result_of(done, command):
    lines = done.stdout[done.stdout.find("{"):]
    if done.returncode != 0 or not lines:
        sys.exit(f"{' '.join(map(str, command))} ended with status {done.returncode} and no result")
    return json.JSONDecoder().raw_decode(lines)[0]


class Runs:
    """Where a command runs: between shaped machines, in two processes of this one (rate 0), or in threads (rate -1)."""

    def __init__(self, verbose):
        self.how = {"stdout": subprocess.PIPE, "stderr": None if verbose else subprocess.DEVNULL, "text": True,
                    "stdin": subprocess.DEVNULL, "env": dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="1")}

    def here(self, command):
        return result_of(subprocess.run(command, **self.how), command)

    def at_once(self, commands):
        running = [subprocess.Popen(command, **self.how) for command in commands]
        texts = [process.communicate()[0] for process in running]
        return [result_of(subprocess.CompletedProcess(command, process.returncode, text), command)
                for command, process, text in zip(commands, running, texts)]

    def on_links(self, rate, command):
        if rate < 0:
            return self.here(command)
        if rate == 0:
            return self.here(["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2", *command])
        return result_of(shaped_links.run(command, rate_mbit=rate, **self.how)[0], command)


def middle(runs, key):
    return sorted(runs, key=lambda run: run[key])[len(runs) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/antiphon")
    parser.add_argument("--rates-mbit", type=float, nargs="+", default=[100, 1000])
    parser.add_argument("--codecs", nargs="+", default=list(CODECS), choices=list(CODECS))
    parser.add_argument("--width", type=int, default=1024, help="units of the three hidden layers")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=1, help="of each measured run; the middle one counts")
    parser.add_argument("--megabytes", type=float, default=4, help="of the messages by which the links are measured")
    parser.add_argument("--verbose", action="store_true", help="show what the runs print")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    runs = Runs(options.verbose)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        make_store(program, folder, int(options.steps * 512 / 0.95) + 1000)
        for workers in (1, 2):
            (folder / f"{workers}.toml").write_text(CONFIG.format(context=CONTEXT, width=options.width, workers=workers))

        def train(name, config, *arguments):
            return [program, "train", "--config", f"{folder}/{config}.toml", "--store", f"{folder}/store", "--out",
                    f"{folder}/{name}", "--threads", "1", "--json", *arguments]

        speed_alone = statistics.mean(run["frames_per_second"] for run in
                                      runs.at_once([train(f"alone{i}", "1") for i in range(2)]))
        inputs = DIM * (2 * CONTEXT + 1)
        weights = inputs * options.width + 2 * options.width**2 + options.width * SENONES
        # 2 operations per weight forward, 2 for the gradient, 2 for the way back but in the lowest layer.
        gflops = (6 * weights - 2 * inputs * options.width) * speed_alone / 1e9
        print(f"{weights / 1e6:.2f} M weights; workers that exchange nothing {speed_alone:.0f} frames/s each, {gflops:.1f} GFLOP/s")
        print("rate_mbit codec    frames/s  times_fp32  MB_sent  simulated_frames/s  error_of_time_%")
        for rate in options.rates_mbit:
            cluster = runs.on_links(rate, [program, "bench", "comm", "--workers", "2", "--megabytes", str(options.megabytes),
                                           "--repeats", "9", "--json"])["cluster"]
            (folder / "simulated.toml").write_text(CONFIG.format(context=CONTEXT, width=options.width, workers=2) + cluster)
            fp32 = None
            for codec in options.codecs:
                name = f"{codec}-{rate:g}"
                measured = middle([runs.on_links(rate, train(f"{name}-{i}", "2", *CODECS[codec]))
                                   for i in range(options.repeats)], "frames_per_second")
                simulated = runs.here(train(name + "-simulated", "simulated", *CODECS[codec], "--set",
                                            "parallel.world=simulated", "--set", f"cluster.host.gflops={gflops}"))
                speed, predicted = measured["frames_per_second"], simulated["frames_per_second"]
                fp32 = fp32 or speed
                print(f"{rate:9g} {codec:8} {speed:8.0f} {speed / fp32:11.2f} {measured['bytes_sent'] / 1e6:8.1f} "
                      f"{predicted:19.0f} {100 * (speed / predicted - 1):+16.1f}", flush=True)


if __name__ == "__main__":
    main()
