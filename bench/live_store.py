#!/usr/bin/env python3
"""What making features while training costs: the same training from a store of features, from a live store, and from a live
store with noise, rooms and volume drawn anew, in turn, in one run.

A DNN of 2 million weights (440-4x512-2000) learns labels that are drawn at random: the speed is that of real ones. With --wav,
recordings are written as WAV first; otherwise they are read as they are. Prints frames per second of the steps, and which share of
their time is arithmetic: the rest is waiting for data.

  bench/live_store.py --program build/release/antiphon --data corpus/data/train --work /tmp/live --rounds 3 --wav
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import wave

LAYER = '[[network.layer]]\ntype = "affine"\n'
HIDDEN = LAYER + 'dim = 512\n[[network.layer]]\ntype = "relu"\n'
VARIED = """[data.augment]
clean-share = 0.2
noise-probability = 0.6
reverb-probability = 0.4
volume-low = 0.3
volume-high = 2.0
"""


def run(program, *arguments):
    result = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, arguments))}\n{result.stderr}")
    return result.stdout


def write_wav(program, data, out):
    """The data directory with its recordings as 16-bit WAV."""
    (out / "audio").mkdir(parents=True, exist_ok=True)
    lines = []
    for line in (data / "wav.scp").read_text().splitlines():
        name, path = line.split(maxsplit=1)
        source = next(p for p in (folder / path for folder in (data, *data.parents)) if p.exists())
        wav = out / "audio" / f"{name}.wav"
        if not wav.exists():
            samples = subprocess.run([program, "samples", str(source), "--rate", "16000"], capture_output=True, check=True)
            with wave.open(str(wav), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(16000)
                file.writeframes(samples.stdout)
        lines.append(f"{name} {wav}\n")
    (out / "wav.scp").write_text("".join(lines))
    for name in ("utt2spk", "spk2utt", "text"):
        (out / name).write_text((data / name).read_text())
    return out


def draw_labels(program, feats, out, classes=2000):
    """A class for about every eight frames."""
    generator = random.Random(1)
    shapes = json.loads(run(program, "info", feats / "feats.scp", "--entries", 1 << 30, "--json"))["first entries"]
    with open(out, "w") as file:
        for name, shape in shapes.items():
            frames, labels = int(shape.split()[0]), []
            while len(labels) < frames:
                labels += [generator.randrange(classes)] * generator.randint(4, 12)
            file.write(f"{name} {' '.join(map(str, labels[:frames]))}\n")


def train(program, store, config, out, threads):
    run(program, "train", "--config", config, "--store", store, "--out", out, "--threads", threads)
    with open(out / "metrics.jsonl") as file:
        last = [record for record in map(json.loads, file) if record["kind"] == "epoch"][-1]
    return last["frames_per_second"], last["arithmetic_seconds"], last["data_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/antiphon")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="data directory")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for stores and runs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--feature-threads", type=int, default=2)
    parser.add_argument("--shuffle-frames", type=int, default=1 << 18)
    parser.add_argument("--wav", action="store_true")
    args = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    program, work = str(pathlib.Path(args.program).resolve()), args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    data = write_wav(program, args.data.resolve(), work / "data") if args.wav else args.data.resolve()
    run(program, "features", data, work / "feats")
    draw_labels(program, work / "feats", work / "pdf.ark")
    tables = ("--features", work / "feats/feats.scp", "--cmvn", work / "feats/cmvn.scp", "--utt2spk", data / "utt2spk")
    live = ("--live", data, "--front-end", work / "feats/front_end.toml")
    for name, source in (("stored", tables), ("live", live)):
        run(program, "store", *source, "--alignment", f"ark:{work / 'pdf.ark'}", "--num-pdfs", 2000, work / f"store-{name}")
    config = "".join((f"schedule.epochs = {args.epochs}\nschedule.learning-rate = 0.05\nschedule.final-learning-rate = 0.05\n",
                      f"data.feature-threads = {args.feature_threads}\ndata.shuffle-frames = {args.shuffle_frames}\n",
                      HIDDEN * 4, LAYER))
    (work / "plain.toml").write_text(config)
    (work / "varied.toml").write_text(config.replace("[[network", VARIED + "[[network", 1))
    kinds = {"stored": ("store-stored", "plain"), "live": ("store-live", "plain"), "live, varied": ("store-live", "varied")}
    found = {kind: [] for kind in kinds}
    for i in range(args.rounds):
        for kind, (store, options) in kinds.items():
            out = work / f"run-{i}-{store}-{options}"
            found[kind].append(train(program, work / store, work / f"{options}.toml", out, args.threads))
            speed, arithmetic, waiting = found[kind][-1]
            print(f"round {i + 1}, {kind}: {speed:.0f} frames/s, arithmetic {arithmetic:.2f} s, waiting {waiting:.2f} s "
                  f"(load {os.getloadavg()[0]:.1f})", flush=True)
    for kind, runs in found.items():
        shares = [100 * arithmetic / (arithmetic + waiting) for _, arithmetic, waiting in runs]
        print(f"{kind}: median {statistics.median(speed for speed, _, _ in runs):.0f} frames/s, "
              f"arithmetic {statistics.median(shares):.1f} % ({min(shares):.1f} to {max(shares):.1f})")


if __name__ == "__main__":
    main()
