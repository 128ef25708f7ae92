#!/usr/bin/env python3
"""Training speed of recurrent, convolutional and time-delay networks: antiphon and PyTorch, in turn, in one run.

The networks are the same for both: sizes, streams, frames per stream, senones; plain SGD; PyTorch's LSTM has no peepholes,
so ours has none here either. Rounds alternate, medians are printed. Needs PyTorch in the Python that runs it.

  bench/compare_layers.py --program build/release/antiphon --network lstmp tdnn convolution
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from compare_train import environment, run_json

NETWORKS = {
    # 40 streams of 20 frames.
    "lstmp": {
        "inputs": 40, "outputs": 4000, "streams": 40, "frames": 20, "span": 0,
        "layers": "".join('[[layer]]\ntype = "lstm"\ndim = 1024\nprojection = 512\npeepholes = false\n' for _ in range(3))
                  + '[[layer]]\ntype = "affine"\n',
        "torch": """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(inputs, 1024, num_layers=3, proj_size=512)
        self.out = torch.nn.Linear(512, outputs)
    def forward(self, x):                       # [frames, streams, inputs]
        return self.out(self.lstm(x)[0]).reshape(-1, outputs)
x = torch.randn(frames, streams, inputs)
""",
    },
    # 32 streams of 32 frames; filters over 3 frames and 3 frequencies.
    "convolution": {
        "inputs": 40, "outputs": 4000, "streams": 32, "frames": 32, "span": 8,
        "layers": '[[layer]]\ntype = "convolution"\nfilters = 64\noffsets = [-1, 0, 1]\n[[layer]]\ntype = "relu"\n'
                  '[[layer]]\ntype = "convolution"\nchannels = 64\nfilters = 64\noffsets = [-1, 0, 1]\n[[layer]]\ntype = "relu"\n'
                  '[[layer]]\ntype = "pooling"\nchannels = 64\nwindow = 2\n'
                  '[[layer]]\ntype = "convolution"\nchannels = 64\nfilters = 128\noffsets = [-1, 0, 1]\n[[layer]]\ntype = "relu"\n'
                  '[[layer]]\ntype = "convolution"\nchannels = 128\nfilters = 128\noffsets = [-1, 0, 1]\n[[layer]]\ntype = "relu"\n'
                  '[[layer]]\ntype = "pooling"\nchannels = 128\nwindow = 2\n'
                  '[[layer]]\ntype = "affine"\ndim = 1024\n[[layer]]\ntype = "relu"\n[[layer]]\ntype = "affine"\n',
        "torch": """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        conv = lambda i, o: torch.nn.Conv2d(i, o, 3, padding=(0, 1))
        self.conv = torch.nn.Sequential(conv(1, 64), torch.nn.ReLU(), conv(64, 64), torch.nn.ReLU(), torch.nn.MaxPool2d((1, 2)),
                                        conv(64, 128), torch.nn.ReLU(), conv(128, 128), torch.nn.ReLU(),
                                        torch.nn.MaxPool2d((1, 2)))
        self.out = torch.nn.Sequential(torch.nn.Linear(1280, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, outputs))
    def forward(self, x):                       # [streams, 1, frames, inputs]
        y = self.conv(x)
        return self.out(y.permute(0, 2, 1, 3).reshape(-1, 1280))
x = torch.randn(streams, 1, frames + span, inputs)
""",
    },
    # 32 streams of 40 frames; six layers of 1024 that see 13 frames before and after.
    "tdnn": {
        "inputs": 40, "outputs": 4000, "streams": 32, "frames": 40, "span": 26,
        "layers": "".join(f'[[layer]]\ntype = "tdnn"\ndim = 1024\noffsets = {o}\n[[layer]]\ntype = "relu"\n'
                          for o in ("[-1, 0, 1]", "[-1, 0, 1]", "[-2, 0, 2]", "[-3, 0, 3]", "[-3, 0, 3]", "[-3, 0, 3]"))
                  + '[[layer]]\ntype = "affine"\n',
        "torch": """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        parts, width = [], inputs
        for dilation in (1, 1, 2, 3, 3, 3):
            parts += [torch.nn.Conv1d(width, 1024, 3, dilation=dilation), torch.nn.ReLU()]
            width = 1024
        self.net = torch.nn.Sequential(*parts, torch.nn.Conv1d(1024, outputs, 1))
    def forward(self, x):                       # [streams, inputs, frames]
        return self.net(x).transpose(1, 2).reshape(-1, outputs)
x = torch.randn(streams, inputs, frames + span)
""",
    },
}

TORCH_WORKER = r"""
import json, sys, time
import torch
code, inputs, outputs, streams, frames, span, threads, seconds, channels_last = json.loads(sys.argv[1])
torch.set_num_threads(threads)
torch.manual_seed(1)
exec(code)
net = Net()
if channels_last and x.dim() == 4:
    net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
t = torch.randint(outputs, (streams * frames,))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
def step():
    optimizer.zero_grad(set_to_none=True)
    torch.nn.functional.cross_entropy(net(x), t).backward()
    optimizer.step()
for _ in range(2):
    step()
times = []
while sum(times) < seconds or len(times) < 3:
    start = time.perf_counter()
    step()
    times.append(time.perf_counter() - start)
times.sort()
print(json.dumps({"frames_per_second": streams * frames / times[len(times) // 2], "version": torch.__version__,
                  "parameters": sum(p.numel() for p in net.parameters())}))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/antiphon")
    parser.add_argument("--network", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="per program and round")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    env = environment(args.threads)
    results = []
    for name in args.network:
        net = NETWORKS[name]
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(net["layers"])
            file.flush()
            ours, torchs, row = [], [], {"network": name, "threads": args.threads}
            for _ in range(args.rounds):
                result, error = run_json(
                    [args.program, "bench", "train", "--network", file.name, "--inputs", str(net["inputs"]), "--outputs",
                     str(net["outputs"]), "--chunk-frames", str(net["frames"]), "--minibatch",
                     str(net["streams"] * net["frames"]), "--threads", str(args.threads), "--seconds", str(args.seconds),
                     "--json"], env)
                if error:
                    sys.exit(f"{args.program}: {error[0]}")
                ours.append(result["frames_per_second"])
                row["parameters"] = result["parameters"]
                rates = []
                for channels_last in ([False, True] if name == "convolution" else [False]):  # its better layout counts
                    job = [net["torch"], net["inputs"], net["outputs"], net["streams"], net["frames"], net["span"],
                           args.threads, args.seconds, channels_last]
                    result, error = run_json([sys.executable, "-c", TORCH_WORKER, json.dumps(job)], env)
                    if error:
                        sys.exit(f"PyTorch: {error[0]}")
                    rates.append(result["frames_per_second"])
                torchs.append(max(rates))
                row.update(pytorch=result["version"], pytorch_parameters=result["parameters"])
        row.update(frames_per_second=statistics.median(ours), pytorch_frames_per_second=statistics.median(torchs),
                   times_pytorch=statistics.median(a / b for a, b in zip(ours, torchs)))
        results.append(row)
        if not args.json:
            print(f"{name}: {row['parameters'] / 1e6:.1f} M parameters, antiphon {row['frames_per_second']:.0f} frames/s, "
                  f"PyTorch {row['pytorch']} {row['pytorch_frames_per_second']:.0f} ({row['times_pytorch']:.2f} x)", flush=True)
    print(json.dumps(results) if args.json else f"{time.strftime('%Y-%m-%d')}, {args.threads} threads")


if __name__ == "__main__":
    main()
