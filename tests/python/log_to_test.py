"""Metrics go to Weights & Biases and to a server of MLflow, each record once: by the command of the package, by train
and by antiphon.log_to, with stand-ins for the services' packages (fakes). habits_test takes the packages themselves."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest
from unittest import mock

import package
from system import SystemTest

FAKES = pathlib.Path(__file__).resolve().parent / "fakes"
PACKAGES = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
sys.path.insert(0, str(FAKES))
antiphon = package.optional("antiphon")
if antiphon is not None:
    from antiphon import _beside, _log_to, log_to

import fake_service  # noqa: E402

TARGETS = ["wandb:offline", "mlflow:http://localhost:1"]
SCHEDULE = {"epochs": 3, "learning_rate": 0.05, "final_learning_rate": 0.005}


def record(kind, step, **more):
    """A line of metrics.jsonl."""
    loss = {"parameters": 9} if kind == "start" else {"train_loss": step / 8}
    return json.dumps({"kind": kind, "steps" if kind == "finish" else "step": step, **loss, **more}).encode() + b"\n"


@package.need("antiphon")
class LogTo(SystemTest):
    def setUp(self):
        self.folder = self.root / self.id().rsplit(".", 1)[-1]
        self.folder.mkdir()
        self.run_folder = self.folder / "net"
        environment = mock.patch.dict(os.environ, {"FAKE_SERVICES": str(self.folder / "calls.jsonl")})
        environment.start()
        self.addCleanup(environment.stop)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)
        pathlib.Path("calls.jsonl").touch()

    def calls(self, call, service=None):
        return [c for c in fake_service.calls() if c["call"] == call and service in (None, c["service"])]

    def check_sent(self, endings, runs=1):
        """Each record of metrics.jsonl is where it should be, once, in one run of each service."""
        records = [json.loads(line) for line in (self.run_folder / "metrics.jsonl").read_text().splitlines()]
        steps = [r["step"] for r in records if r["kind"] == "step"]
        self.assertEqual(len(steps), len(set(steps)))
        self.assertGreater(len(steps), 3)
        epochs = [r["step"] for r in records if r["kind"] == "epoch"]
        for service in ("wandb", "mlflow"):
            logged = self.calls("log", service)
            self.assertEqual([c["step"] for c in logged if "train_loss" in c["values"]], steps)
            self.assertEqual([c["step"] for c in logged if "epoch_train_loss" in c["values"]], epochs)
            self.assertEqual([c["values"]["final_held_out_loss"] for c in logged if "final_held_out_loss" in
                              c["values"]], [records[-1]["held_out_loss"]])
            self.assertEqual(len({c["run"] for c in logged}), runs)
            self.assertEqual([c["ending"] for c in self.calls("finish", service)], endings[service])

    def train(self, **more):
        return antiphon.train(self.root / "store", "net", network=[{"type": "affine", "dim": 8}, {"type": "affine"}],
                              **{"schedule": SCHEDULE, "data": {"minibatch": 64}, "log_steps": 1, "threads": 1,
                                 "held_out": {"fraction": 0.2}, "log_to": TARGETS} | more)

    def test_a_training(self):
        self.train(log_to=[*TARGETS, "mlflow:files"])
        self.check_sent({"wandb": [0], "mlflow": ["FINISHED"]})
        begun, = self.calls("init")
        self.assertEqual((begun["project"], begun["mode"], begun["name"], begun["dir"]),
                         ("antiphon", "offline", "net", "offline"))
        self.assertEqual(begun["config"]["schedule.epochs"], 3)
        self.assertIn(("run0", "schedule.epochs", "3"),
                      [(c["run"], c["name"], c["value"]) for c in self.calls("log_param")])
        self.assertEqual(len(list(pathlib.Path("files").glob("*/*/meta.yaml"))), 1)  # by the library itself
        # Nothing is left to be sent; another training in the same folder is another run.
        self.assertTrue(log_to.send("net", TARGETS))
        self.check_sent({"wandb": [0], "mlflow": ["FINISHED"]})
        self.train()
        self.assertEqual(len(self.calls("init")), 2)
        self.assertEqual([c["run"] for c in self.calls("create_run")], ["run0", "run1"])

    def test_a_training_that_goes_on(self):
        token = antiphon.CancelToken()
        with self.assertRaises(antiphon.Cancelled):
            self.train(cancel=token, on_metrics=lambda told: token.cancel() if told.get("step") == 3 else None)
        self.assertEqual([c["ending"] for c in self.calls("finish")], ["KILLED", 1])  # the last one first
        self.train(resume=True)
        self.check_sent({"wandb": [1, 0], "mlflow": ["KILLED", "FINISHED"]})
        self.assertEqual([c["status"] for c in self.calls("update_run")], ["RUNNING"])

    def command(self, *arguments, **settings):
        """The `antiphon` that the package installs, to be waited for."""
        environment = os.environ | {
            "PATH": f"{package.program().parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([*settings.pop("first", [str(FAKES)]), *PACKAGES])}
        environment |= settings.pop("env", {})
        return subprocess.Popen([sys.executable, "-m", *map(str, arguments)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=environment, **settings)

    def command_that_sends(self, *arguments):
        """A command that goes on and has sent something; one that has ended without is an error."""
        heard, tells = os.pipe()
        self.addCleanup(os.close, heard)
        try:
            process = self.command(*arguments, pass_fds=[tells], env={"FAKE_SERVICES_PIPE": str(tells)})
        finally:
            os.close(tells)  # only the command has it now: if that ends, nothing is heard
        if not os.read(heard, 1):
            self.fail(f"{arguments} ended: {process.communicate(timeout=200)[1]}")
        return process

    def done(self, *arguments, **settings):
        process = self.command(*arguments, **settings)
        process.out, process.err = process.communicate(timeout=200)
        return process

    def training_file(self, **more):
        lines = [f"{key} = {json.dumps(value)}" for key, value in {
            "store": str(self.root / "store"), "out": "net", "log-steps": 1, "threads": 1, **more}.items()]
        pathlib.Path("train.toml").write_text("\n".join([
            *lines, "data.minibatch = 64", "held-out.fraction = 0.2", "checkpoint.steps = 3",
            "schedule.learning-rate = 0.05", "schedule.final-learning-rate = 0.005",
            "[[network.layer]]", "type = 'affine'", ""]))
        return "train.toml"

    def test_the_command(self):
        done = self.done("antiphon", "train", "--config", self.training_file(), "--schedule.epochs", 3,
                         f"--log-to={TARGETS[0]},mlflow:files", "--log-to", TARGETS[1])
        self.assertEqual(done.returncode, 0, done.err)
        self.check_sent({"wandb": [0], "mlflow": ["FINISHED"]})
        self.assertEqual(len(list(pathlib.Path("files").glob("*/*/meta.yaml"))), 1)

    def test_the_command_by_a_link_is_not_the_program(self):
        from antiphon import __main__ as command
        for name in ("script", "links", "program"):
            os.mkdir(name)
        for name in ("script", "program"):
            pathlib.Path(name, "antiphon").touch(0o755)
        os.symlink("../script/antiphon", "links/antiphon")
        path = os.pathsep.join(str(self.folder / name) for name in ("links", "script", "program"))
        for called in ("script", "links"):
            with mock.patch.object(sys, "argv", [str(self.folder / called / "antiphon")]), \
                    mock.patch.dict(os.environ, {"PATH": path}):
                found = shutil.which("antiphon", path=command._path_without_script())
            self.assertEqual(found, str(self.folder / "program/antiphon"), called)

    def test_the_command_by_a_file(self):
        file = self.training_file(**{"log-to": TARGETS})
        plain = subprocess.run([package.plain_program(), "train", "--config", file], capture_output=True, text=True)
        self.assertEqual(plain.returncode, 2)
        self.assertIn("python -m antiphon.log_to RUN", plain.stderr)
        done = self.done("antiphon", "train", "--config", file, "--set", "schedule.epochs=3")
        self.assertEqual(done.returncode, 0, done.err)
        self.check_sent({"wandb": [0], "mlflow": ["FINISHED"]})

    def test_a_command_that_is_stopped_and_goes_on(self):
        process = self.command_that_sends("antiphon", "train", "--config", self.training_file(), "--schedule.epochs",
                                          100000, "--log-to", TARGETS[0], "--log-to", TARGETS[1])
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=200)
        self.assertEqual(process.returncode, 3, err)
        self.assertEqual([c["ending"] for c in self.calls("finish")], [1, "KILLED"])
        steps = self.calls("log", "wandb")[-1]["step"]
        # What was written last may not have been looked at; nothing is sent twice.
        again = self.done("antiphon.log_to", "net", *TARGETS, "--once")
        self.assertEqual(again.returncode, 0, again.err)
        logged = [c["step"] for c in self.calls("log", "wandb") if "train_loss" in c["values"]]
        self.assertEqual(logged, sorted(set(logged)))
        self.assertGreaterEqual(logged[-1], steps - 1)

    def test_the_program_hears_signals_from_here_alone(self):
        program = self.folder / "program"
        program.write_text("\n".join([
            f"#!{sys.executable}", "import os, signal",
            "signals = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP}",
            "signal.pthread_sigmask(signal.SIG_BLOCK, signals)", "print(os.getpgrp(), flush=True)",
            "print(signal.Signals(signal.sigwait(signals)).name)", ""]))
        program.chmod(0o755)
        code = ("import signal, sys; from antiphon import _beside; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
                f"sys.exit(_beside.run({str(program)!r}, [], [], 'net'))")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
            with self.subTest(number):
                process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                                           env=os.environ | {"PYTHONPATH": os.pathsep.join(PACKAGES)},
                                           start_new_session=True)
                self.addCleanup(process.kill)
                self.assertNotEqual(int(process.stdout.readline()), process.pid, "a signal to the group reaches it, too")
                process.send_signal(number)
                self.assertEqual(process.communicate(timeout=200)[0], f"{number.name}\n")
                self.assertEqual(process.returncode, 0)

    def test_a_command_whose_service_fails_trains(self):
        done = self.done("antiphon", "train", "--config", self.training_file(), "--schedule.epochs", 3, "--log-to",
                         ",".join(TARGETS), env={"FAKE_SERVICES_FAILS": "log"})
        self.assertEqual(done.returncode, 0, done.err)
        self.assertIn("warning: wandb:offline: log: no such server; the training goes on without it", done.err)
        self.assertTrue(pathlib.Path("net/model.safetensors").exists())
        sent = self.done("antiphon.log_to", "net", *TARGETS)
        self.assertEqual(sent.returncode, 0, sent.err)
        self.check_sent({"wandb": [0], "mlflow": ["FINISHED"]})

    def test_a_rank_that_is_not_the_first_sends_nothing(self):
        done = self.done("antiphon", "train", "--config", self.training_file(), "--schedule.epochs", 1, "--log-to",
                         TARGETS[0], env={"SLURM_PROCID": "1"})
        self.assertEqual((done.returncode, fake_service.calls()), (0, []), done.err)

    def test_packages_that_are_not_there_are_named(self):
        if {"wandb", "mlflow"} & {file.name for folder in sys.path if os.path.isdir(folder) and folder != str(FAKES)
                                  for file in os.scandir(folder)}:
            self.skipTest("they are there")
        for command in (("antiphon", "train", "--config", self.training_file(), "--log-to", TARGETS[0]),
                        ("antiphon.log_to", self.folder, TARGETS[0])):
            done = self.done(*command, first=[])
            self.assertEqual(done.returncode, 2, done.err)
            self.assertIn("needs the package wandb: pip install wandb", done.err)
        self.assertFalse(pathlib.Path("net").exists())

    def write(self, *lines, mode="wb"):
        self.run_folder.mkdir(exist_ok=True)
        with open(self.run_folder / "metrics.jsonl", mode) as file:
            file.write(b"".join(lines))

    def test_a_run_that_goes_on_is_followed(self):
        self.write(record("start", 0), *(record("step", n) for n in (1, 2, 3)), record("step", 4)[:9])
        process = self.command_that_sends("antiphon.log_to", "net", *TARGETS)
        self.write(record("step", 4)[9:], record("epoch", 4, held_out_loss=0.5), record("event", 4),
                   record("finish", 4, held_out_loss=0.5), mode="ab")
        _, err = process.communicate(timeout=200)
        self.assertEqual(process.returncode, 0, err)
        self.check_sent({"wandb": [0], "mlflow": ["FINISHED"]})

    def test_parts_of_a_run(self):
        lines = [record("start", 0), *(record("step", n) for n in (1, 2, 3, 4)), record("epoch", 4, held_out_loss=0.5)]
        self.write(*lines[:3])
        self.assertFalse(log_to.send("net", TARGETS, once=True))
        self.assertEqual([c["step"] for c in self.calls("log", "wandb")], [0, 1, 2])
        self.assertEqual([c["ending"] for c in self.calls("finish")], [0])  # MLflow's goes on
        self.write(*lines[3:], record("finish", 4, held_out_loss=0.5), mode="ab")
        follower = _log_to.Follower("net", TARGETS[0])
        self.assertTrue(follower.catch_up())
        self.assertTrue(follower.catch_up())  # as long as no other training begins
        follower.close("FINISHED")
        self.assertTrue(log_to.send("net", TARGETS))
        self.check_sent({"wandb": [0, 0], "mlflow": ["FINISHED"]})

    def test_steps_that_are_taken_again_are_sent_once(self):
        follower = _log_to.Follower("net", TARGETS[0])
        self.assertFalse(follower.catch_up())  # nothing is there
        self.write(record("start", 0), *(record("step", n, rate=n) for n in range(1, 7)))
        follower.catch_up()
        follower.catch_up()
        # From the checkpoint of step 3 on.
        self.write(record("start", 0), *(record("step", n, rate=n) for n in (1, 2, 3)), record("event", 3),
                   *(record("step", n, rate=9) for n in (4, 5, 6, 7, 8, 9)))
        follower.catch_up()
        # After a fall-back to it.
        self.write(*(record("step", n, rate=8) for n in (4, 5, 6, 7, 8, 9, 10)), mode="ab")
        follower.catch_up()
        self.assertEqual([c["step"] for c in self.calls("log")], list(range(11)))
        self.assertEqual(len(self.calls("init")), 1)
        # Another training: nothing is sent before that shows.
        self.write(record("start", 0))
        follower.catch_up()
        self.assertEqual(len(self.calls("log")), 11)
        self.write(record("step", 1, rate=7), mode="ab")
        follower.catch_up()
        self.assertEqual([c["step"] for c in self.calls("log")][11:], [0, 1])
        self.assertEqual(len({c["run"] for c in self.calls("init")}), 2)
        self.assertEqual([c["ending"] for c in self.calls("finish")], [1])

    def test_it_is_noted_before_it_is_sent(self):
        noted = []

        def log(run, values, step):
            noted.append(json.loads((self.run_folder / "log_to.json").read_text())[TARGETS[0]]["sent"]["step"])
            if step == 2:
                raise ConnectionError

        self.write(*(record("step", n) for n in (1, 2, 3)))
        follower = _log_to.Follower("net", TARGETS[0])
        with mock.patch("wandb.Run.log", log), self.assertRaises(ConnectionError):
            follower.catch_up()
        self.assertEqual(noted, [1, 2])
        follower.catch_up()  # what failed is not there
        self.assertEqual([c["step"] for c in self.calls("log")], [2, 3])

    def test_mistakes_are_named(self):
        self.write(record("step", 1), b"no JSON\n")
        for arguments, status, said in ((("net", TARGETS[0], "--once"), 1, "metrics.jsonl:2: expected a JSON object"),
                                        (("net", "tensorboard:x"), 2, "names no place"),
                                        (("net", "wandb:"), 2, "names no place"),
                                        (("nowhere", TARGETS[0]), 1, "no such file or folder")):
            done = self.done("antiphon.log_to", *arguments)
            self.assertEqual(done.returncode, status, done.err)
            self.assertIn(said, done.err)
        for damaged in ("{", "[]", '{"wandb:offline": 3}', '{"wandb:offline": {"sent": {"step": "x"}}}'):
            (self.run_folder / "log_to.json").write_text(damaged)
            with self.assertRaisesRegex(antiphon.InputError, "log_to.json: damaged"):
                _log_to.Follower("net", TARGETS[0])

    def test_command_lines_are_divided(self):
        self.training_file(**{"log-to": ["mlflow:files", TARGETS[0]]})
        train = ["train", "--config", "train.toml"]
        for given, own, services, out in (
                (train, '["mlflow:files"]', [TARGETS[0]], "net"),
                ([*train, "--out", "other"], '["mlflow:files"]', [TARGETS[0]], "other"),
                ([*train, "--set", "out=more", "--set", f"log-to=['{TARGETS[1]}']"], "[]", [TARGETS[1]], "more"),
                ([*train, "--log-to", f"['{TARGETS[1]}', 'mlflow:a']", "--out=z"], '["mlflow:a"]', [TARGETS[1]], "z"),
                (["train", "--out", "a", "--log-to", "wandb:b,mlflow:c", "--log-to=wandb:d"], '["mlflow:c"]',
                 ["wandb:b", "wandb:d"], "a")):
            told = [word for at, word in enumerate(given) if not word.startswith("--log-to") and
                    (at == 0 or given[at - 1] != "--log-to")]
            self.assertEqual(_beside.divided(given), ([*told, "--log-to", own], services, out))
        for given in (["decode", "--log-to", TARGETS[0]], ["train", "--out", "a", "--log-to", "mlflow:c"],
                      ["train", "--log-to", TARGETS[0]], ["train", "--config", "nowhere.toml"], ["train"], [],
                      ["train", "--out", "a", "--set", "log-to=3"]):
            self.assertEqual(_beside.divided(given), (given, [], ""))


if __name__ == "__main__":
    package.main()
