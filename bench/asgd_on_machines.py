#!/usr/bin/env python3
"""Asynchronous SGD on 1, 2 and 4 machines, in words: what accuracy, bytes and time become of it.

Trains a network on the frame store of an experiment that recipes/fsdd.toml made, or another recipe with the same folders, by asgd
on "machines" that are network namespaces (bench/shaped_links.py) with one rank each: every machine a slave, slaves of two machines
that divide the model, and these with sparse links between its parts. Decodes the experiment's test speech with each model, with the
experiment's graph and weights. Prints, per way, number of machines and speed of the links, the mean over the seeds: seconds of the
training, MB over the links, held-out frame accuracy and word error rate. All machines share this computer's cores: times say what
links cost, and what machines gain as far as the cores go. Needs root.

  antiphon run recipes/fsdd.toml --set data=CORPORA/fsdd
  bench/asgd_on_machines.py --experiment exp/fsdd --test CORPORA/fsdd/data/test
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import codecs_on_links
import shaped_links

WAYS = {
    "asgd": ["method=asgd"],
    "slaves of 2": ["method=asgd-groups", "stripes=2"],
    "the same, sparse links": ["method=asgd-groups", "stripes=2", "sparse-links={links}"],
}

# Without statistics of minibatches, for which machines would send all units to each other, links sparse or not.
NETWORK = "network.layer=[{type='repeat',times=3,layers=[{type='affine',dim=256},{type='relu'}]},{type='affine'}]"


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.program = os.path.abspath(options.program)
        self.experiment = pathlib.Path(options.experiment).resolve()
        self.runs = codecs_on_links.Runs(options.verbose)

    def train(self, out, machines, rate, keys, seed):
        sets = [*(f"parallel.{key.format(links=self.options.sparse_links)}" for key in keys),
                f"parallel.workers={machines}", f"seed={seed}",
                f"schedule.epochs={self.options.epochs}", f"schedule.learning-rate={self.options.rate}",
                f"schedule.final-learning-rate={self.options.rate / 10}", "optimizer.type=sgd", "precision=fp32",
                "held-out.fraction=0.1", NETWORK]
        command = [self.program, "train", "--config", str(self.experiment / "network/config.toml"), "--store",
                   str(self.experiment / "store"), "--out", str(out), "--threads", "1", "--json",
                   *(word for each in sets for word in ("--set", each))]
        if machines == 1:
            return self.runs.here(command), 0
        done, sent = shaped_links.run(command, machines=machines, rate_mbit=rate, **self.runs.how)
        return codecs_on_links.result_of(done, command), sum(sent)

    def words(self, run):
        """Word error rate of the test speech, in percent."""
        test = self.experiment / "test"
        command = [self.program, "decode", "--model", str(run / "model.safetensors"), "--graph", str(self.experiment / "graph"),
                   "--data", self.options.test, "--features", str(test / "feats.scp"), "--cmvn", str(test / "cmvn.scp"),
                   "--utt2spk", str(test / "utt2spk"), "--weights", str(self.experiment / "decode-dev/weights.toml"), "--beam",
                   str(self.options.beam), "--no-lattices", "--out", str(run / "decode")]
        done = subprocess.run(command, **self.runs.how)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with status {done.returncode}")
        return 100 * json.load(open(run / "decode/summary.json"))["score"]["error_rate"]

    def run(self, machines, rate, keys, seed):
        out = self.folder / f"run-{machines}-{rate:g}-{len(keys)}-{seed}"
        result, sent = self.train(out, machines, rate, keys, seed)
        epochs = [line for line in map(json.loads, open(out / "metrics.jsonl")) if line["kind"] == "epoch"]
        return {"seconds": result["seconds"], "megabytes": sent / 1e6, "accuracy": 100 * epochs[-1]["held_out_accuracy"],
                "words": self.words(out)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/antiphon")
    parser.add_argument("--experiment", required=True, help="folder of the recipe's run")
    parser.add_argument("--test", required=True, help="data directory of the test speech, with its text")
    parser.add_argument("--machines", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rates-mbit", type=float, nargs="+", default=[1000, 100])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS), help="of several machines")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=0.5, help="learning rate at the beginning; a tenth of it at the end")
    parser.add_argument("--sparse-links", type=int, default=32, help="units of the other machine that a unit sees")
    parser.add_argument("--beam", type=float, default=13)
    parser.add_argument("--verbose", action="store_true", help="show what the runs print")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(options, pathlib.Path(scratch))
        print("machines  Mbit/s  way                      seconds       MB  accuracy    WER  (of each seed)")
        for machines in options.machines:
            for rate in options.rates_mbit if machines > 1 else [0]:
                for way, keys in ([(way, WAYS[way]) for way in options.ways] if machines > 1 else
                                  [("serial", ["method=serial"])]):
                    runs = [bench.run(machines, rate, keys, seed + 1) for seed in range(options.seeds)]
                    mean = {key: statistics.mean(run[key] for run in runs) for key in runs[0]}
                    each = " ".join(f"{run['words']:.2f}" for run in runs)
                    print(f"{machines:8} {rate:7g}  {way:22} {mean['seconds']:9.1f} {mean['megabytes']:8.1f} "
                          f"{mean['accuracy']:9.2f} {mean['words']:6.2f}  ({each})", flush=True)


if __name__ == "__main__":
    main()
