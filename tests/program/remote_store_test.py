"""antiphon on frame stores that lie on servers: the same models as from folders, and an end at once when it is asked to
stop while it waits for one.

Usage: remote_store_test.py SOURCE-TREE PROGRAM
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import small_system as system
from small_system import must, run

SOURCE = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(".")
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        "AWS_SESSION_TOKEN": "a-token/+=", "AWS_REGION": "eu-central-1", "no_proxy": "127.0.0.1"}


class RemoteStores(system.SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = subprocess.Popen(
            [sys.executable, SOURCE / "tests/faults/store_server.py", cls.root / "store"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        cls.host = f"http://127.0.0.1:{cls.server.stdout.readline().strip()}"
        os.environ.update(KEYS, AWS_ENDPOINT_URL=f"{cls.host}/s3")

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.server.communicate()
        super().tearDownClass()

    def command(self, name, store, *more):
        root = self.root
        return ["train", "--config", root / "net.toml", "--store", store, "--held-out-store", store, "--out",
                root / name, "--set", "data.minibatch=64", "--set", "schedule.epochs=2", "--json", *more]

    def model_hash(self, name, store, *more):
        result = must(*self.command(name, store, *more))
        return json.loads(result.stdout.strip().splitlines()[-1])["model_hash"]

    def cache(self, name):
        return "--set", f"data.cache-dir={self.root / name}"

    def test_training_gives_the_model_of_the_folder(self):
        local = self.model_hash("local", self.root / "store")
        self.assertEqual(self.model_hash("http", f"{self.host}/cut", *self.cache("cache-http")), local)
        self.assertEqual(self.model_hash("s3", "s3://bucket", *self.cache("cache-s3")), local)
        grouped = self.model_hash("grouped", self.root / "store", "--set", "data.shards-at-once=1")
        self.assertEqual(self.model_hash("grouped-s3", "s3://bucket", *self.cache("cache-s3"), "--set",
                                         "data.shards-at-once=1"), grouped)

    def test_other_commands_make_of_it_what_they_make_of_the_folder(self):
        net, root = self.root / "net/model.safetensors", self.root
        few = ["--train.schedule.epochs", 1, "--train.data.minibatch", 64]

        def made(name, store):
            cache = ("--set", f"data.cache-dir={root}/cache-others") if store != root / "store" else ()
            of_training = ("--set", f"train.data.cache-dir={root}/cache-others") if cache else ()
            must("targets", net, "--store", store, "--out", root / f"{name}.targets", *cache)
            must("compress", net, "--method", "svd", "--set", "svd.size=0.5", "--store", store, "--out", root / f"{name}-svd",
                 *few, *of_training)
            must("adapt", net, "--store", store, "--out", root / f"{name}-adapted", *few, *of_training)
            return [(root / f"{name}{file}").read_bytes() for file in
                    (".targets", "-svd/model.safetensors", "-adapted/model.safetensors")]

        self.assertEqual(made("far", f"{self.host}/plain"), made("near", root / "store"))

    def test_what_cannot_be_is_said(self):
        for command, status, text in [
                (self.command("none", f"{self.host}/plain"), 2, "set data.cache-dir to a folder"),
                (self.command("none", f"{self.host}/missing", *self.cache("none")), 1, "HTTP status 404"),
                (self.command("none", f"{self.host}/wrong", *self.cache("none")), 1, "the checksum is wrong"),
                (self.command("none", f"{self.host}/plain", *self.cache("none"), "--set", "data.cache-limit-gb=1e-6"),
                 2, "data.cache-limit-gb"),
                (["store", "--features", self.root / "feats/feats.scp", "--num-pdfs", 5, "--out", "s3://bucket/new"], 2,
                 "copy it there")]:
            result = run(*command)
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertIn(text, result.stderr)
        self.assertFalse(pathlib.Path("s3:").exists())

    def test_info_reads_the_index_alone(self):
        self.assertEqual(must("info", f"{self.host}/stall-shards").stdout, must("info", self.root / "store").stdout)

    def test_a_request_to_stop_ends_waiting(self):
        process = subprocess.Popen([system.PROGRAM, *map(str, self.command(
            "stopped", f"{self.host}/stall-shards", *self.cache("cache-stopped"), "--set", "data.fetch-stall-s=600"))],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        shard = self.root / "cache-stopped"
        end = time.monotonic() + 60
        while not list(shard.glob("*/*.frames.part")) and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.3)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(process.returncode, 3, errors)
        self.assertIn("waiting for training data from a server", errors)


if __name__ == "__main__":
    system.PROGRAM = sys.argv[2]
    if "without libcurl" in must("doctor").stdout:
        print("skipped: the program was built without libcurl")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
