#!/usr/bin/env python3
"""Does `antiphon plan` order the strategies as their measured times to a given accuracy do? Kendall's tau per setting.

A setting is a number of machines (network namespaces, bench/shaped_links.py), ranks on each and the speed of the links. In each:

  predicted: `plan --all` on the cluster that `antiphon bench comm` describes there, and on devices as fast as that many workers who
             train at once and exchange nothing. Its best variant of every method is what is trained.
  measured:  passes over the data that the held-out accuracy takes, times the seconds of a pass at the measured frames/s.

The passes are counted with the ranks as threads, once per variant and number of workers: where a rank computes changes no bit of
the synchronous methods. Trainings of several lengths, each with a rate of its own that falls to its end, give a method's accuracy
as a straight line over the logarithm of the epochs; the target is serial training's after --target-epochs by its line. The
speed is measured on the links, in the program's own training of a store of the same shape; where a variant leaves ranks free, as
many trainings that exchange nothing run beside it, as a machine here has its part of the cores only. Cores get faster and slower
from minute to minute, so each measurement is a ratio: to as many trainings that exchange nothing, right before and after it.
Hessian-free training is left out: a pass is one step there, and no number of frames per second says what it needs. Tau-b counts
ties; it is printed once with the planner's rules on passes, and once with the passes that were measured in their place, which
leaves the speeds as the planner's part. Needs root.

  bench/plan_order.py --store exp/store --program build/release/antiphon
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile

import codecs_on_links
import shaped_links

# machines, ranks on each, Mbit/s of the links (0: processes of one machine; -1: threads of one process)
SETTINGS = [(1, 2, -1), (1, 4, -1), (1, 2, 0), (1, 4, 0), (2, 1, 1000), (2, 1, 100), (4, 1, 1000), (4, 1, 100)]
LEFT_OUT = {"hessian-free"}
OPTIMIZERS = {"eamsgd": ["optimizer.momentum=0.9", "optimizer.nesterov=true"],
              "natural-gradient-averaging": ["optimizer.type=natural-gradient", "optimizer.step.max-change=2"]}
CONFIG = """
[data]
minibatch = 256
left-context = {context}
right-context = {context}
[schedule]
epochs = {epochs}
learning-rate = {rate}
final-learning-rate = {final_rate}
[held-out]
fraction = 0.1
by = "utterance"
[[network.layer]]
type = "repeat"
times = {layers}
layers = [{{ type = "affine", dim = {width} }}, {{ type = "relu" }}]
[[network.layer]]
type = "affine"
"""


def order(a, b, noise):
    """Which of two times is longer: 1, -1, or 0 for a tie."""
    if a == b or abs(a - b) <= noise * min(a, b):
        return 0
    return 1 if a > b else -1


def tau_b(pairs, noise=0.0):
    """Kendall's tau-b of (predicted, measured)."""
    agree = predicted_only = measured_only = 0
    score = 0
    for i, (p, m) in enumerate(pairs):
        for q, n in pairs[:i]:
            a, b = order(p, q, noise), order(m, n, noise)
            score += a * b
            agree += a != 0 and b != 0
            predicted_only += a != 0 and b == 0
            measured_only += a == 0 and b != 0
    below = ((agree + predicted_only) * (agree + measured_only))**0.5
    return score / below if below else float("nan")


def sets_of(method):
    table = method["parallel"]
    sets = []
    for line in filter(None, table.splitlines()):
        sets += ["--set", "parallel." + line.replace(" = ", "=", 1)]
    return sets + [word for each in OPTIMIZERS.get(method["method"], []) for word in ("--set", each)]


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.program = os.path.abspath(options.program)
        self.runs = codecs_on_links.Runs(options.verbose)
        self.how = self.runs.how
        shape = json.load(open(f"{options.store}/store.json"))
        self.dim, self.pdfs, self.frames = shape["feat_dim"], shape["num_pdfs"], 0.9 * shape["num_frames"]
        self.inputs = self.dim * (2 * options.context + 1)
        self.config = folder / "run.toml"
        self.config.write_text(CONFIG.format(context=options.context, epochs=1, rate=options.rate, final_rate=options.final_rate,
                                             layers=options.layers, width=options.width))
        codecs_on_links.make_store(self.program, folder, options.speed_frames, self.dim, self.pdfs)
        self.number = 0
        self.before = None  # frames/s of a training right before the next measurement
        self.curves_file = pathlib.Path(options.curves or folder / "curves.json")
        self.curves = json.loads(self.curves_file.read_text()) if self.curves_file.exists() else {}
        self.speeds_file = pathlib.Path(options.speeds or folder / "speeds.json")
        self.speeds = json.loads(self.speeds_file.read_text()) if self.speeds_file.exists() else {}

    def command(self, store, *arguments):
        self.number += 1
        return [self.program, "train", "--config", str(self.config), "--store", str(store), "--out",
                f"{self.folder}/run-{self.number}", "--threads", "1", "--json", *arguments]

    def accuracy(self, sets, epochs):
        """Of held-out frames after so many epochs, ranks as threads; None if the method refuses."""
        key = f"{epochs} " + " ".join(sets)
        if key not in self.curves:
            command = self.command(self.options.store, "--set", f"schedule.epochs={epochs}", *sets)
            done = subprocess.run(command, **self.how)
            self.curves[key] = None
            if done.returncode == 0:
                lines = map(json.loads, open(f"{self.folder}/run-{self.number}/metrics.jsonl"))
                self.curves[key] = [line["held_out_accuracy"] for line in lines if line["kind"] == "epoch"][-1]
            self.curves_file.write_text(json.dumps(self.curves, indent=1))
        return self.curves[key]

    def curve(self, sets):
        """Accuracy as a + b·log(epochs), by least squares over trainings of several lengths; None if the method refuses."""
        points = [(math.log(epochs), self.accuracy(sets, epochs)) for epochs in self.options.epochs]
        if any(y is None for _, y in points):
            return None
        mean_x, mean_y = (sum(p[i] for p in points) / len(points) for i in (0, 1))
        slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x)**2 for x, _ in points)
        return mean_y - slope * mean_x, slope

    def on(self, setting, command, ranks):
        """By so many ranks of the setting."""
        machines, per_machine, rate = setting
        machines, per_machine = -(-ranks // per_machine), min(ranks, per_machine)
        if rate < 0 or ranks == 1:
            done = subprocess.run(command, **self.how)
        elif rate == 0:
            done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np",
                                   str(per_machine), *command], **self.how)
        else:
            done = shaped_links.run(command, machines, per_machine, rate, **self.how)[0]
        return codecs_on_links.result_of(done, command)

    def passing(self, setting, *sets):
        """The training whose speed is measured: on fast links long enough that its first second counts for little."""
        epochs = 1 if 0 < setting[2] <= 100 else self.options.speed_epochs
        return self.command(f"{self.folder}/store", "--set", f"schedule.epochs={epochs}", *sets)

    def measured(self, setting, what, measure):
        """What `measure` gives, measured once for each setting."""
        of_setting = self.speeds.setdefault(" ".join(map(str, setting)), {})
        if what not in of_setting:
            of_setting[what] = measure()
            self.speeds_file.write_text(json.dumps(self.speeds, indent=1))
        return of_setting[what]

    def independent(self, setting):
        """Frames/s of one of as many trainings as the setting has ranks, at once, that exchange nothing."""
        ranks = setting[0] * setting[1]
        epochs = f"schedule.epochs={max(1, self.options.speed_epochs // ranks)}"
        results = self.runs.at_once([self.command(f"{self.folder}/store", "--set", epochs) for _ in range(ranks)])
        return statistics.mean(result["frames_per_second"] for result in results)

    def speed(self, setting, method):
        """Frames/s at the cores' middle speed in this setting."""
        gflops = self.cluster(setting)[1]
        ratio = self.measured(setting, " ".join(sets_of(method)), lambda: self.measure_ratio(setting, method))
        return ratio * gflops * 1e9 / self.operations()

    def measure_ratio(self, setting, method):
        """Its frames/s as a multiple of one training's, with as many beside it that exchange nothing."""
        ranks = method["expected"]["ranks"]
        before = self.before or self.independent(setting)
        beside = [subprocess.Popen(self.passing(setting), **self.how) for _ in range(setting[0] * setting[1] - ranks)]
        command = self.passing(setting, *sets_of(method))
        result = self.on(setting, command, ranks)
        for process in beside:
            process.communicate()
        self.before = self.independent(setting)
        return result["frames_per_second"] / ((before + self.before) / 2)

    def operations(self):
        """Of a frame."""
        o = self.options
        return 6 * (self.inputs * o.width + (o.layers - 1) * o.width**2 + o.width * self.pdfs) - 2 * self.inputs * o.width

    def cluster(self, setting):
        return self.measured(setting, "cluster", lambda: self.measure_cluster(setting))

    def measure_cluster(self, setting):
        ranks = setting[0] * setting[1]
        links = self.on(setting, [self.program, "bench", "comm", "--workers", str(ranks), "--megabytes", "1", "--repeats", "9",
                                  "--json"], ranks)["cluster"]
        found = [self.independent(setting) for _ in range(5)]
        self.before = found[-1]
        return links, self.operations() * statistics.median(found) / 1e9

    def plan(self, setting, links, gflops):
        file = self.folder / "cluster.toml"
        file.write_text(links)
        o = self.options
        layers = f"{self.inputs},{o.layers}x{o.width},{self.pdfs}"
        command = [self.program, "plan", "--config", str(file), "--set", f"cluster.host.gflops={gflops}", "--layers", layers,
                   "--hours", str(self.frames / 360000), "--epochs", str(o.target_epochs), "--devices",
                   str(setting[0] * setting[1]), "--minibatch", "256", "--all", "--json"]
        found = json.loads(subprocess.run(command, **self.how).stdout)
        return {m["method"]: m for m in found["methods"] if "expected" in m and m["method"] not in LEFT_OUT}


def epochs_to(curve, target):
    level, slope = curve
    return math.exp((target - level) / slope) if slope > 0 else float("inf")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/antiphon")
    parser.add_argument("--store", required=True, help="frame store of the speech that is learned")
    parser.add_argument("--context", type=int, default=5)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--final-rate", type=float, default=0.05)
    parser.add_argument("--epochs", type=int, nargs="+", default=[2, 3, 4, 5], help="lengths of the trainings that count passes")
    parser.add_argument("--target-epochs", type=int, default=3)
    parser.add_argument("--speed-frames", type=int, default=120000,
                        help="of the store on which speeds are measured: several periods of exchange")
    parser.add_argument("--speed-epochs", type=int, default=4, help="passes over that store, but for links of 100 Mbit/s and less")
    parser.add_argument("--noise", type=float, default=0.05, help="times that differ by no more than this share count as tied")
    parser.add_argument("--curves", help="JSON file of accuracies by epoch, of the same store and options: what is there is not "
                        "trained again")
    parser.add_argument("--speeds", help="JSON file of what was measured in each setting: what is there is not measured again, so "
                        "that another planner can be judged by it")
    parser.add_argument("--count-only", action="store_true", help="count passes into --curves, also on a busy machine; no speeds")
    parser.add_argument("--speeds-only", action="store_true", help="measure into --speeds; count no passes")
    parser.add_argument("--settings", type=int, nargs="+", default=list(range(len(SETTINGS))), help="numbers of them, from 0")
    parser.add_argument("--verbose", action="store_true", help="show what the runs print")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(options, pathlib.Path(scratch))
        if not options.speeds_only:
            serial = ["--set", "parallel.method=serial"]
            level, slope = bench.curve(serial)
            target = level + slope * math.log(options.target_epochs)
            found = " ".join(f"{epochs}: {100 * bench.accuracy(serial, epochs):.2f}" for epochs in options.epochs)
            print(f"{bench.frames:.0f} frames, target {100 * target:.2f} % of held-out frames; serial after epochs {found}")
        for number in options.settings:
            setting = SETTINGS[number]
            bench.before = None
            links, gflops = bench.cluster(setting)
            predicted = bench.plan(setting, links, gflops)
            print(f"\nsetting {number}: {setting[0]} machine(s) of {setting[1]} rank(s), {setting[2]:g} Mbit/s, "
                  f"{gflops:.1f} GFLOP/s each\nmethod                      passes   frames/s  measured_s  predicted:"
                  "   frames/s  by_rules_s  known_passes_s", flush=True)
            rows = []
            for name, method in predicted.items():
                sets = sets_of(method)
                if options.speeds_only:
                    print(f"{name:26} {bench.speed(setting, method):10.0f}", flush=True)
                    continue
                curve = bench.curve(sets)
                if curve is None:
                    print(f"{name:26} is refused")
                    continue
                passes = epochs_to(curve, target)
                if options.count_only:
                    print(f"{name:26} {passes:7.2f}", flush=True)
                    continue
                speed = bench.speed(setting, method)
                measured = passes * bench.frames / speed
                expected = method["expected"]
                known = passes * bench.frames / expected["frames_per_second"]
                rows.append((3600 * expected["hours"], known, measured))
                print(f"{name:26} {passes:7.2f} {speed:10.0f} {measured:11.2f} "
                      f"{expected['frames_per_second']:22.0f} {rows[-1][0]:11.2f} {known:15.2f}", flush=True)
            if rows:
                by_rules, known = [(r, m) for r, _, m in rows], [(k, m) for _, k, m in rows]
                print(f"tau: {tau_b(by_rules):.2f} by its rules, {tau_b(known):.2f} with the passes known; times within "
                      f"{100 * options.noise:g} % of each other tied: {tau_b(by_rules, options.noise):.2f} and "
                      f"{tau_b(known, options.noise):.2f}; {len(rows)} methods", flush=True)


if __name__ == "__main__":
    main()
