"""What the library says goes to Python's logging; metrics go to MLflow and Weights & Biases, read back by their own
packages where those are installed."""

import contextlib
import io
import json
import logging
import os
import struct
import subprocess
import sys
import threading
import unittest
from unittest import mock

import package
from small_system import must
from system import SystemTest

antiphon = package.optional("antiphon")
SCHEDULE = {"epochs": 2, "learning_rate": 0.05, "final_learning_rate": 0.005}


def level_db_records(file):
    """Of a log of LevelDB's as wandb writes it: seven bytes of its own, then records cut at blocks of 32 KiB."""
    at, record = 7, b""
    while at + 7 <= len(file):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", file, at + 4)
        record += file[at + 7:at + 7 + length]
        if kind in (1, 4):  # whole, last
            yield record
            record = b""
        at += 7 + length


@package.need("antiphon")
class Habits(SystemTest):
    def train(self, out, **more):
        return antiphon.train(self.root / "store", self.root / out, hmm=self.root / "align/model.safetensors",
                              network=[{"type": "affine", "dim": 8}, {"type": "relu"}, {"type": "affine"}],
                              **{"schedule": SCHEDULE, "data": {"minibatch": 64}, "log_steps": 1, "threads": 1,
                                 "held_out": {"fraction": 0.2}} | more)

    def records(self, out):
        return [json.loads(line) for line in (self.root / out / "metrics.jsonl").read_text().splitlines()]

    def said(self, out, setup):
        """What a program with this `setup` of logging prints while it trains."""
        script = f"""
import logging, sys
import antiphon
{setup}
antiphon.train({str(self.root / 'store')!r}, {str(self.root / out)!r}, schedule={{"epochs": 1}},
               data={{"minibatch": 64}}, network=[{{"type": "affine"}}])
"""
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_the_log_is_pythons(self):
        said = self.said("said", "logging.basicConfig(level=logging.INFO, stream=sys.stdout,\n"
                                 "                    format='%(name)s %(levelname)s %(message)s')")
        self.assertRegex(said, "antiphon INFO network: .* parameters")
        self.assertEqual(self.said("silent", ""), "")

    def test_a_handler_may_use_the_library(self):
        class Handler(logging.Handler):
            def emit(self, record):
                seen.append(antiphon.FrontEnd(kind="mfcc").dim)
                done.set()

        seen, done, handler, logger = [], threading.Event(), Handler(), logging.getLogger("antiphon")
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
        try:
            self.train("used")
            self.assertTrue(done.wait(60))
        finally:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
        self.assertEqual(set(seen), {40})

    def test_a_handler_that_raises_is_reported_and_the_log_goes_on(self):
        class Handler(logging.Handler):
            def emit(self, record):
                heard.append(record.levelno)
                if len(heard) == 1:
                    raise LookupError("the handler broke")
                if logging.DEBUG in heard:
                    done.set()

        heard, done, handler, logger = [], threading.Event(), Handler(), logging.getLogger("antiphon")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)
        try:
            with contextlib.redirect_stderr(io.StringIO()) as told:
                for words in ("zebra", "okapi"):
                    antiphon.Recognizer(self.root / "net/model.safetensors", self.root / "graph", hotwords={words: 1.0})
                antiphon.Recognizer(self.root / "net/model.safetensors", self.fly_graph(), add_words={"C": "a b"})
                self.assertTrue(done.wait(60), heard)
        finally:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
        self.assertIn("LookupError: the handler broke", told.getvalue())

    def fly_graph(self):
        """One that words can be added to."""
        must("graph", "--model", self.root / "align/model.safetensors", "--lexicon", self.root / "lexicon.txt",
             "--grammar", self.root / "grammar.txt", "--on-the-fly", "--out", self.root / "fly")
        return self.root / "fly"

    def test_services_hear_how_a_training_ended(self):
        class Target:
            id = "here"

            def __init__(self, folder, *_):
                if folder == "broken":
                    raise LookupError(folder)

            def write(self, record):
                if record["kind"] == "start" and raised is not None:
                    raise raised

            def close(self, ending):
                endings.append(ending)

        for raised, ending in ((None, "FINISHED"), (LookupError("x"), "FAILED"), (KeyboardInterrupt(), "KILLED")):
            endings = []
            with mock.patch("antiphon._log_to._Wandb", Target), mock.patch("antiphon._log_to.require"):
                try:
                    self.train(f"ended {ending}", log_to="wandb:here")
                except (LookupError, KeyboardInterrupt):
                    pass
            self.assertEqual(endings, [ending])
        raised, endings = None, []
        with mock.patch("antiphon._log_to._Wandb", Target), mock.patch("antiphon._log_to.require"), \
                self.assertRaises(LookupError):
            self.train("refused", log_to=["wandb:here", "wandb:broken"])
        self.assertEqual(endings, ["FAILED"])

    def test_mlflow_files(self):
        self.train("to_files", log_to=f"mlflow:{self.root / 'mlruns'}")
        file, = (self.root / "mlruns").glob("*/*/metrics/final_held_out_loss")
        self.assertEqual(float(file.read_text().split()[1]), self.records("to_files")[-1]["held_out_loss"])

    @package.need("mlflow")
    def test_mlflow_reads_them(self):
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # MLflow 3 asks for that
        from mlflow.tracking import MlflowClient

        self.train("for_mlflow", log_to=[f"mlflow:{self.root / 'mlstore'}"])
        client = MlflowClient(tracking_uri=(self.root / "mlstore").as_uri())
        experiment = client.get_experiment_by_name("antiphon")
        run, = client.search_runs([experiment.experiment_id])
        self.assertEqual((run.info.status, run.info.run_name), ("FINISHED", "for_mlflow"))
        self.assertEqual(run.data.params["schedule.epochs"], "2")
        wanted = [(r["step"], r["train_loss"]) for r in self.records("for_mlflow") if "train_loss" in r]
        found = [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "train_loss")]
        self.assertEqual(sorted(found), sorted(wanted))
        self.assertEqual([a.path for a in client.list_artifacts(run.info.run_id)], ["config.toml"])

    def train_in_two_parts(self, out, target):
        """One that is cancelled, and goes on."""
        token = antiphon.CancelToken()
        with self.assertRaises(antiphon.Cancelled):
            self.train(out, log_to=target, cancel=token,
                       on_metrics=lambda record: token.cancel() if record.get("step") == 3 else None)
        self.train(out, log_to=target, resume=True)

    @package.need("mlflow")
    def test_mlflow_as_a_server_has_it(self):
        """In a database, which is what its server keeps them in."""
        from mlflow.tracking import MlflowClient

        uri = f"sqlite:///{self.root}/mlflow.db"
        self.train_in_two_parts("for_server", f"mlflow:{uri}")
        client = MlflowClient(tracking_uri=uri)
        run, = client.search_runs([client.get_experiment_by_name("antiphon").experiment_id])
        self.assertEqual((run.info.status, run.info.run_name), ("FINISHED", "for_server"))
        self.assertEqual(run.data.params["schedule.epochs"], "2")
        wanted = [(r["step"], r["train_loss"]) for r in self.records("for_server") if r["kind"] == "step"]
        found = [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "train_loss")]
        self.assertEqual(sorted(found), sorted(wanted))

    def wandb_files(self, folder):
        """(run, [(step, train_loss)]) of each."""
        from wandb.proto import wandb_internal_pb2

        for file in sorted(folder.rglob("*.wandb")):
            run, found = "", []
            for data in level_db_records(file.read_bytes()):
                record = wandb_internal_pb2.Record()
                record.ParseFromString(data)
                run = record.run.run_id or run
                values = {item.key or "/".join(item.nested_key): json.loads(item.value_json)
                          for item in record.history.item}
                if "train_loss" in values:
                    found.append((record.history.step.num, values["train_loss"]))
            yield run, found

    @package.need("wandb")
    def test_wandb_offline(self):
        import wandb

        self.addClassCleanup(wandb.teardown)  # its own at exit stumbles over unittest's exit status
        self.train("for_wandb", log_to=f"wandb:{self.root / 'wb'}")
        (_, found), = self.wandb_files(self.root / "wb")
        self.assertEqual(found, [(r["step"], r["train_loss"]) for r in self.records("for_wandb")
                                 if r["kind"] == "step"])

    @package.need("wandb")
    def test_wandb_in_two_parts(self):
        import wandb

        self.addClassCleanup(wandb.teardown)
        self.train_in_two_parts("for_wandb_twice", f"wandb:{self.root / 'wb2'}")
        runs, found = zip(*self.wandb_files(self.root / "wb2"))
        self.assertEqual((len(runs), len(set(runs))), (2, 1))
        self.assertTrue(all(found))
        self.assertEqual(sum(found, []), [(r["step"], r["train_loss"]) for r in self.records("for_wandb_twice")
                                          if r["kind"] == "step"])

    def test_services_without_their_package_are_refused(self):
        with mock.patch.dict(sys.modules, {"wandb": None, "mlflow": None, "mlflow.tracking": None}):
            for target in ("wandb:somewhere", "mlflow:http://localhost:1"):
                with self.assertRaisesRegex(antiphon.UsageError, "pip install"):
                    self.train("refused", log_to=target)
        for bad in ("here", "mlflow:", "wandb:"):
            with self.assertRaisesRegex(antiphon.UsageError, "expected"):
                self.train("refused", log_to=bad)
        self.assertFalse((self.root / "refused/model.safetensors").exists())


if __name__ == "__main__":
    package.main()
