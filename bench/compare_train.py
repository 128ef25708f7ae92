#!/usr/bin/env python3
"""Training speed of the benchmark network: antiphon, PyTorch and the bare matrix products, in turn, in one run.

antiphon itself alternates its steps with oneDNN's bare products of the same shapes; this script alternates antiphon with
PyTorch (plain SGD, the same network, loss and minibatch; bf16 by autocast with fp32 weights) for some rounds and prints the
medians and their ratios. It needs PyTorch in the Python that runs it; without it, it says so and shows the rest.

  bench/compare_train.py --program build/release/antiphon --minibatch 256 1024 --precision fp32 bf16
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

TORCH_WORKER = r"""
import json, sys, time
import torch
layers, activation, minibatch, precision, threads, seconds = json.loads(sys.argv[1])
torch.set_num_threads(threads)
torch.manual_seed(1)
act = {"sigmoid": torch.nn.Sigmoid, "relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}[activation]
parts = []
for i in range(1, len(layers)):
    parts.append(torch.nn.Linear(layers[i - 1], layers[i]))
    if i + 1 < len(layers):
        parts.append(act())
net = torch.nn.Sequential(*parts)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x = torch.randn(minibatch, layers[0])
t = torch.randint(layers[-1], (minibatch,))
def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        loss = torch.nn.functional.cross_entropy(net(x), t)
    loss.backward()
    optimizer.step()
for _ in range(3):
    step()
times = []
while sum(times) < seconds or len(times) < 5:
    start = time.perf_counter()
    step()
    times.append(time.perf_counter() - start)
times.sort()
print(json.dumps({"frames_per_second": minibatch / times[len(times) // 2], "version": torch.__version__}))
"""


def expand(text):
    layers = []
    for piece in text.split(","):
        count, _, dim = piece.rpartition("x")
        layers += [int(dim)] * (int(count) if count else 1)
    return layers


def environment(threads):
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), CUDA_VISIBLE_DEVICES="")
    # Old kernels pinned by the surroundings would make the comparison unfair to whoever uses OpenBLAS.
    env.pop("OPENBLAS_CORETYPE", None)
    return env


def run_json(command, env):
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1:] or ["no message"]
    return json.loads(done.stdout.strip().splitlines()[-1]), None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/antiphon")
    parser.add_argument("--layers", default="462,5x2048,10217")
    parser.add_argument("--activation", default="sigmoid", choices=["sigmoid", "relu", "tanh"])
    parser.add_argument("--minibatch", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="per program and round")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    env = environment(args.threads)

    results = []
    for minibatch in args.minibatch:
        for precision in args.precision:
            ours, limits, torchs, torch_error, version, about = [], [], [], None, None, ""
            for _ in range(args.rounds):
                result, error = run_json(
                    [args.program, "bench", "train", "--layers", args.layers, "--activation", args.activation,
                     "--minibatch", str(minibatch), "--precision", precision, "--threads", str(args.threads),
                     "--seconds", str(2 * args.seconds), "--json"], env)
                if error:
                    sys.exit(f"{args.program}: {error[0]}")
                ours.append(result["frames_per_second"])
                limits.append(result["limit_frames_per_second"])
                about = f"{result['cpu']}, {result['backend']}"
                if torch_error is None:
                    job = [expand(args.layers), args.activation, minibatch, precision, args.threads, args.seconds]
                    result, torch_error = run_json([sys.executable, "-c", TORCH_WORKER, json.dumps(job)], env)
                    if result:
                        torchs.append(result["frames_per_second"])
                        version = result["version"]
            row = {"minibatch": minibatch, "precision": precision, "threads": args.threads, "layers": args.layers,
                   "activation": args.activation, "frames_per_second": statistics.median(ours),
                   "limit_frames_per_second": statistics.median(limits),
                   "share_of_limit": statistics.median(a / b for a, b in zip(ours, limits)),
                   "pytorch_frames_per_second": statistics.median(torchs) if torchs else None,
                   "times_pytorch": statistics.median(a / b for a, b in zip(ours, torchs)) if torchs else None,
                   "pytorch": version, "about": about}
            results.append(row)
            if not args.json:
                torch_text = (f"PyTorch {version} {row['pytorch_frames_per_second']:7.0f} ({row['times_pytorch']:.2f} x)"
                              if torchs else f"PyTorch not measured: {torch_error[0]}")
                print(f"minibatch {minibatch:5d} {precision}: antiphon {row['frames_per_second']:7.0f} frames/s, bare "
                      f"products {row['limit_frames_per_second']:7.0f} ({100 * row['share_of_limit']:.0f} %), {torch_text}",
                      flush=True)
    if args.json:
        print(json.dumps(results))
    else:
        print(f"{time.strftime('%Y-%m-%d')}, {args.layers} {args.activation}, {args.threads} threads, {about}")


if __name__ == "__main__":
    main()
