"""antiphon sweep, learning-rate and train --log-to, from outside: a sweep that is killed at any point comes to the
result of one that is not; a search for a rate touches no run; metrics stand where MLflow looks for them.

Usage: training_habits_test.py SOURCE-TREE PROGRAM
"""

import fcntl
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import small_system
from small_system import SystemTest, must, run


class TrainingHabits(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.training = cls.root / "sweep.toml"
        cls.training.write_text(f'store = "{cls.root}/store"\nnormalize-input = true\n'
                                'schedule.epochs = 3\nlog-steps = 1\ncheckpoint.steps = 3\ndata.minibatch = 64\n'
                                'held-out.fraction = 0.2\n' + small_system.NETWORK)

    def sweep_command(self, out, *more):
        return ["sweep", "--training", self.training, "--out", out, "--runs", 4, "--stop-after", 1, "--threads", 1,
                "--set", "vary.schedule.learning-rate=log:0.001..1",
                "--set", "vary.schedule.final-learning-rate=0.1 * schedule.learning-rate", *more]

    def result(self, out):
        runs = json.loads((out / "sweep.json").read_text())["runs"]
        for entry in runs:
            entry["folder"] = pathlib.Path(entry["folder"]).name
        models = {p.parent.name: p.read_bytes() for p in out.glob("run-*/model.safetensors")}
        return runs, models

    def test_a_sweep_that_is_killed_goes_on(self):
        whole = must(*self.sweep_command(self.root / "whole"))
        runs, models = self.result(self.root / "whole")
        self.assertEqual([r["state"] for r in runs], ["finished"] * 2 + ["given_up"] * 2)
        self.assertLess(runs[0]["held_out_loss"], runs[1]["held_out_loss"])
        self.assertIn("the best: ", whole.stdout)
        self.assertEqual(len(models), 2)

        out = self.root / "killed"
        kills = 0
        for records in (2, 9, 25, 40):  # of metrics, after which it is killed
            process = subprocess.Popen([small_system.PROGRAM, *map(str, self.sweep_command(out))],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None:
                if sum(p.read_bytes().count(b"\n") for p in out.glob("run-*/metrics.jsonl")) >= records:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
                    process.wait()
                    break
                time.sleep(0.002)  # between two looks at files that another process writes
        self.assertGreater(kills, 1)
        must(*self.sweep_command(out))
        self.assertEqual(self.result(out), (runs, models))

        at_once = self.root / "at_once"
        must(*self.sweep_command(at_once, "--at-once", 2, "--threads", 2))
        self.assertEqual(self.result(at_once), (runs, models))

    def test_mistakes_are_told_at_once(self):
        out = self.root / "wrong"
        result = run("sweep", "--training", self.training, "--out", out, "--set", "vary.schedule.lerning-rate=0..1")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("learning-rate", result.stderr)
        result = run("sweep", "--training", self.training, "--out", out)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("something to vary", result.stderr)

    def test_a_sweep_without_any_result_is_an_error(self):
        out = self.root / "refused"
        result = run("sweep", "--training", self.training, "--out", out, "--runs", 3, "--at-once", 2, "--with",
                     "restarts=1", "--set", "vary.schedule.learning-rate=log:0.001..1")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("all 3 runs failed, the first: --at-once is for trainings in this process", result.stderr)
        self.assertEqual([r["state"] for r in json.loads((out / "sweep.json").read_text())["runs"]], 3 * ["failed"])

    def test_a_rate_is_found_without_a_run(self):
        (self.root / "kept").mkdir()
        (self.root / "kept/model.safetensors").write_text("of an earlier run")
        result = must("learning-rate", "--training", self.training, "--with", f"out={self.root}/kept", "--out",
                      self.root / "rate", "--steps", 120, "--json")
        found = json.loads(result.stdout)
        self.assertTrue(1e-3 < found["learning_rate"] < 100, found["learning_rate"])
        self.assertEqual(len(found["rates"]), len(found["losses"]))
        self.assertLessEqual(found["learning_rate"], found["lowest_loss_at"])
        self.assertEqual([p.name for p in (self.root / "kept").iterdir()], ["model.safetensors"])
        self.assertIn("learning rate", (self.root / "rate/learning_rate.html").read_text())

    def test_a_training_that_is_refused_leaves_the_configuration(self):
        out = self.root / "busy"
        command = ["train", "--config", self.training, "--out", out, "--schedule.learning-rate", 0.05,
                   "--schedule.final-learning-rate", 0.005, "--schedule.epochs", 1]
        must(*command)
        config = (out / "config.toml").read_text()
        with open(out / "train.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for more in ((), ("--restarts", 1)):
                refused = run(*command, "--log-steps", 2, *more)
                self.assertEqual(refused.returncode, 2, refused.stderr)
                self.assertIn("another training is working in", refused.stderr)
        with open(out / "supervise.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            refused = run(*command, "--restarts", 1)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("another training is supervised in", refused.stderr)
        self.assertEqual((out / "config.toml").read_text(), config)
        # One that ran says what supervised it.
        must(*command, "--restarts", 1)
        self.assertEqual((out / "config.toml").read_text(), config.replace("restarts = 0", "restarts = 1"))
        self.assertFalse((out / "supervised.toml").exists())

    def test_a_restart_replaces_an_earlier_run_too(self):
        """One that died before it took the folder starts as it was asked to; later, it goes on."""
        out = self.root / "replaced"
        begin = ["train", "--config", self.training, "--json", "--schedule.learning-rate", 0.05,
                 "--schedule.final-learning-rate", 0.005]

        def train(moment, *more):
            fault = f"kill rank=0 at={moment} once={self.root}/died-{len(list(self.root.glob('died-*')))}"
            result = must(*begin, "--out", out, "--restarts", 1, "--launch", f"env 'ANTIPHON_FAULT={fault}'", *more)
            self.assertIn("was started again", result.stderr)
            return json.loads(result.stdout)["model_hash"], result.stderr

        must(*begin, "--out", out, "--set", "data.minibatch=32")
        expected = json.loads(must(*begin, "--out", self.root / "replacing").stdout)["model_hash"]
        for again in range(2):  # in place of another configuration's run, and of one that is the same
            model_hash, log = train("start")
            self.assertEqual(model_hash, expected)
            self.assertNotIn("going on from step", log, again)
        model_hash, log = train("step step=5")
        self.assertEqual(model_hash, expected)
        self.assertIn("going on from step", log)
        model_hash, log = train("start", "--resume")
        self.assertEqual(model_hash, expected)
        self.assertIn("going on from step", log)

    def test_a_rank_of_a_simulated_cluster_fails(self):
        """Where all are needed the run ends and says so, once; where not, the others go on."""
        def command(method):
            return ["train", "--config", self.training, "--out", self.root / f"lost-{method}", "--json", "--set",
                    "parallel.world=simulated", "--set", f"parallel.method={method}", "--set", "parallel.workers=3",
                    "--set", "cluster.host.gflops=0.01", "--set", "cluster.host.failing-ranks=[1]", "--set",
                    "cluster.host.failing-seconds=[0.2]", "--set", "checkpoint.steps=1000"]

        result = run(*command("model-parallel"))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("rank 1 is lost", result.stderr)
        self.assertNotIn("are left", result.stderr)
        self.assertEqual(json.loads(must(*command("averaging")).stdout)["lost_workers"], 1)

    def test_a_small_loss_is_told(self):
        easy = self.root / "easy"
        easy.mkdir()
        with open(easy / "feats.txt", "w") as feats, open(easy / "pdf.txt", "w") as pdfs, \
                open(easy / "utt2spk", "w") as speakers:
            for speaker in range(4):
                ids = [t // 5 % 2 for t in range(100)]
                feats.write(f"u{speaker}  [\n  " + "\n  ".join(f"{2 * k - 1} 0.5" for k in ids) + " ]\n")
                pdfs.write(f"u{speaker} {' '.join(map(str, ids))}\n")
                speakers.write(f"u{speaker} s{speaker}\n")
        store, out = easy / "store", easy / "net"
        must("store", "--features", f"ark:{easy}/feats.txt", "--alignment", f"ark:{easy}/pdf.txt", "--utt2spk",
             easy / "utt2spk", "--out", store)
        (easy / "train.toml").write_text('schedule = {epochs = 4, learning-rate = 8, final-learning-rate = 8}\n'
                                         'data.minibatch = 16\nheld-out.fraction = 0.25\n'
                                         '[[network.layer]]\ntype = "affine"\n')
        trained = must("train", "--config", easy / "train.toml", "--store", store, "--out", out)
        finish = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])
        evaluate = ["train", "--evaluate", out / "model.safetensors", "--store", store]
        for said, loss in ((trained.stdout, finish["held_out_loss"]),
                           (must(*evaluate).stdout, json.loads(must(*evaluate, "--json").stdout)["loss"])):
            self.assertTrue(0 < loss < 1e-3, loss)
            self.assertAlmostEqual(float(re.findall(r"loss ([^ ;]+)[ ;]", said)[0]) / loss, 1, delta=0.01, msg=said)

    def check_mlflow(self, metrics, records):
        """Each loss is there once, under the names that the Python package gives them, too."""
        for name, kinds, field in (("train_loss", ["step"], "train_loss"), ("epoch_train_loss", ["epoch"], "train_loss"),
                                   ("held_out_loss", ["start", "epoch"], "held_out_loss"),
                                   ("final_held_out_loss", ["finish"], "held_out_loss")):
            told = [(r.get("step", r.get("steps", 0)), r[field]) for r in records
                    if r["kind"] in kinds and field in r]
            self.assertTrue(told, name)
            lines = [line.split() for line in (metrics / name).read_text().splitlines()]
            self.assertEqual([(int(step), float(value)) for _, value, step in lines], told, name)
        self.assertFalse((metrics / "epoch_held_out_loss").exists())

    def test_metrics_go_to_mlflow(self):
        store, out = self.root / "mlruns", self.root / "logged"
        command = ["train", "--config", self.training, "--out", out, "--schedule.learning-rate", 0.05,
                   "--schedule.final-learning-rate", 0.005, "--log-to", f"mlflow:{store}"]
        must(*command)
        experiment, = store.iterdir()
        first, = (p for p in experiment.iterdir() if p.is_dir())
        self.assertIn("status: 3", (first / "meta.yaml").read_text())
        records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.check_mlflow(first / "metrics", records)
        self.assertEqual((first / "params/schedule.epochs").read_text(), "3")
        self.assertTrue((first / "artifacts/config.toml").exists())
        # Once more is another run; one that was killed goes on as the same, with no step twice.
        must(*command)
        self.assertEqual(sum(p.is_dir() for p in experiment.iterdir()), 2)
        shutil.rmtree(out)
        killed = subprocess.Popen([small_system.PROGRAM, *map(str, command)], stderr=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL)
        while killed.poll() is None:
            if (out / "metrics.jsonl").exists() and (out / "metrics.jsonl").read_bytes().count(b"\n") > 8:
                killed.kill()
                break
            time.sleep(0.002)
        killed.wait()
        must(*command, "--resume")
        self.assertEqual(sum(p.is_dir() for p in experiment.iterdir()), 3)
        run_id = json.loads((out / "mlflow_run.json").read_text())[str(store)]["run_id"]
        records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.check_mlflow(experiment / run_id / "metrics", records)
        refused = run(*command[:-1], "wandb:somewhere")
        self.assertEqual(refused.returncode, 2)
        for told in ("pip install . wandb", "python -m antiphon.log_to RUN wandb:somewhere"):
            self.assertIn(told, refused.stderr)

    def test_top_looks_at_a_run(self):
        """A run that logs each step, one that logs none, and what is no run."""
        for name, steps in (("often", 1), ("seldom", 1000000)):
            must("train", "--config", self.training, "--out", self.root / name, "--log-steps", steps,
                 "--schedule.learning-rate", 0.05, "--schedule.final-learning-rate", 0.005)
            records = [json.loads(line) for line in (self.root / name / "metrics.jsonl").read_text().splitlines()]
            epoch = [r for r in records if r["kind"] == "epoch"][-1]
            self.assertEqual(any(r["kind"] == "step" for r in records), steps == 1)
            shown = must("top", self.root / name, "--once").stdout
            self.assertIn("finished after 3 epochs", shown)
            self.assertIn(f"train loss {epoch['train_loss']:.4f}" if steps > 1 else "train loss ", shown)
            self.assertIn(f"held-out loss {records[-1]['held_out_loss']:.4f}", shown)
            speed, rate = re.search(r"([\d.,]+)[ kM]* frames/s, learning rate ([\d.e-]+)", shown).groups()
            self.assertGreater(float(speed), 0, shown)
            if steps > 1:
                self.assertAlmostEqual(float(rate), epoch["learning_rate"], delta=0.001 * epoch["learning_rate"])
            told = json.loads(must("top", self.root / name, "--once", "--json").stdout)
            self.assertEqual(told["epoch"], epoch)
            self.assertLessEqual(max(map(len, must("top", self.root / name, "--once", "--width", 40).stdout
                                         .splitlines()[1:])), 40)
        refused = run("top", self.root / "store", "--once")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("give the folder of a training run", refused.stderr)


if __name__ == "__main__":
    small_system.PROGRAM = str(pathlib.Path(sys.argv[2]).resolve())
    sys.argv = sys.argv[:1]
    unittest.main()
