#!/usr/bin/env python3
"""Scoring speed of the benchmark network: antiphon and ONNX Runtime in turn, in one run, log-softmax included.

Each round runs both on the same batch size and precision; medians over the rounds and their ratio are printed. Needs
onnxruntime and numpy in the Python that runs it.

  bench/compare_infer.py --program build/release/antiphon --batch 1 8 100 256 --precision fp32 int8

A compressed model against ONNX Runtime on the network that it was made from, whose sizes --layers tells:

  bench/compare_infer.py --layers 600,4x448,487 --activation relu --precision int8 --model exp/small/model.safetensors
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from onnx_network import network


def expand(text):
    layers = []
    for piece in text.split(","):
        count, _, dim = piece.rpartition("x")
        layers += [int(dim)] * (int(count) if count else 1)
    return layers


class OnnxRuntime:
    def __init__(self, dims, precision, threads, activation):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.version = onnxruntime.__version__
        self.dims = dims
        self.session = onnxruntime.InferenceSession(
            network(dims, precision, activation.capitalize()), options, providers=["CPUExecutionProvider"]
        )

    def rate(self, batch, seconds):
        import numpy

        x = numpy.random.default_rng(1).standard_normal((batch, self.dims[0])).astype("float32")
        self.session.run(None, {"x": x})
        times = []
        while sum(times) < seconds or len(times) < 5:
            start = time.perf_counter()
            self.session.run(None, {"x": x})
            times.append(time.perf_counter() - start)
        return batch / statistics.median(times)


def antiphon_rate(args, batch, precision):
    command = [args.program, "bench", "infer", "--json", "--batch", str(batch)]
    command += ["--model", args.model] if args.model else ["--layers", args.layers, "--activation", args.activation]
    command += ["--precision", precision, "--threads", str(args.threads), "--seconds", str(args.seconds)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)["frames_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/antiphon")
    parser.add_argument("--layers", default="462,5x2048,10217")
    parser.add_argument("--activation", default="sigmoid", choices=["sigmoid", "relu", "tanh"])
    parser.add_argument("--model", help="a model of ours, compressed, in place of the layers")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 100, 256])
    parser.add_argument("--precision", nargs="+", default=["fp32", "int8"], choices=["fp32", "int8"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of the table")
    args = parser.parse_args()
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        sys.exit("needs onnxruntime and numpy: scripts/venv installs them into .venv")

    results = []
    for precision in args.precision:
        other = OnnxRuntime(expand(args.layers), precision, args.threads, args.activation)
        for batch in args.batch:
            ours, theirs = [], []
            for _ in range(args.rounds):
                theirs.append(other.rate(batch, args.seconds))
                ours.append(antiphon_rate(args, batch, precision))
            row = {
                "precision": precision,
                "batch": batch,
                "threads": args.threads,
                "antiphon": statistics.median(ours),
                "onnxruntime": statistics.median(theirs),
                "onnxruntime_version": other.version,
            }
            row["ratio"] = row["antiphon"] / row["onnxruntime"]
            results.append(row)
            if not args.json:
                print(
                    f"{precision:5} batch {batch:4}: antiphon {row['antiphon']:9.0f} frames/s, "
                    f"ONNX Runtime {other.version} {row['onnxruntime']:9.0f}, ratio {row['ratio']:.2f}",
                    flush=True,
                )
    if args.json:
        print(json.dumps({"layers": args.layers, "model": args.model, "rounds": args.rounds, "results": results}))


if __name__ == "__main__":
    main()
