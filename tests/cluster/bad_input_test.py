"""`antiphon train` over processes that are asked for what cannot be, or whose disks are full: an error that says so, or
the right model; never a hang.

Usage: bad_input_test.py SOURCE-TREE PROGRAM MPIEXEC [unittest options and cases]
"""

import subprocess
import tempfile
import unittest

import cluster
from cluster import Cluster

PROCESSES = 2


class Plans(Cluster):
    """Refused by all processes together, with the figures, before anything is written."""

    # What is asked for, and what the refusal says.
    IMPOSSIBLE = [
        (["data.minibatch=1024"], "training frames are fewer than 4 worker(s) × minibatch 1024"),
        (["parallel.method=averaging", "parallel.sync-period=1000"], "sync-period"),
        (["parallel.method=ssgd", "parallel.accumulate=1000"], "accumulate = 1000 minibatches"),
        (["parallel.method=pipeline"], "4 stages cannot be made of a network that can be cut into 3 parts at most"),
        (["parallel.method=pipeline", "parallel.output-stripes=4"], "output-stripes 4 needs more than 4 workers"),
        (["parallel.method=model-parallel", "parallel.stripes=3"], "4 workers cannot be divided into groups of 3"),
        (["parallel.method=asgd", "parallel.servers=5"], "parallel.servers is 5, but there are 4 workers"),
        (["parallel.method=asgd", "parallel.servers=-1"], "servers"),
        (["parallel.method=serial"], "'serial' is for one worker, but there are 4"),
        (["data.distribution=shards"], "shard"),
        (["parallel.workers=0"], "workers"),
        (["parallel.method=model-parallel", "parallel.workers=40", "data.minibatch=8"],
         "no affine or linear layer with at least 40 outputs"),
    ]

    def test_are_refused_by_all_processes(self):
        for settings, message in self.IMPOSSIBLE:
            with self.subTest(settings=settings):
                name = "plan-" + "-".join(settings).replace("=", "-")
                command = self.command(name, *[word for setting in settings for word in ("--set", setting)])
                result = self.mpirun(PROCESSES, command)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(message, result.stderr)
                self.assertFalse((self.folder / name / "model.safetensors").exists())

    def test_more_workers_than_utterances_are_possible(self):
        words = [word for setting in ("parallel.workers=40", "data.minibatch=8", "schedule.learning-rate=0.01",
                                      "schedule.final-learning-rate=0.01", "data.distribution=shares")
                 for word in ("--set", setting)]
        result = self.mpirun(PROCESSES, self.command("many", "--json", *words))
        self.assertEqual(self.model_hash(result), self.model_hash(
            self.run_command(self.command("many-alone", "--json", *words))))


class Disks(Cluster):
    EPOCHS = 60

    # The process whose files may not grow beyond so many bytes from some step on: a checkpoint, or the log, meets it.
    LIMITS = [(0, 500), (1, 500), (0, 16000)]

    def test_a_full_one_ends_the_run_which_goes_on_when_there_is_room(self):
        for rank, limit in self.LIMITS:
            with self.subTest(rank=rank, limit=limit):
                name = f"full-{rank}-{limit}"
                full = {"ANTIPHON_FAULT": f"full rank={2 * rank} bytes={limit} at=step step=60"}
                result = self.mpirun(PROCESSES, self.command(name, epochs=self.EPOCHS), env=full)
                self.assertNotIn(result.returncode, (0, 2, 3), result.stderr)
                # All processes tell which worker it was; each carries two.
                self.assertRegex(result.stderr, f"rank [{2 * rank}{2 * rank + 1}]:")
                self.assertRegex(result.stderr, "cannot (write|append to) '.*/(checkpoint/|metrics|report).*': "
                                                "File too large")
                again = self.mpirun(PROCESSES, self.command(name, "--json", "--resume", epochs=self.EPOCHS))
                self.assertEqual(self.model_hash(again), self.undisturbed(epochs=self.EPOCHS))

    def test_a_cache_without_room_is_done_without(self):
        with tempfile.TemporaryDirectory() as folder:
            mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", folder], capture_output=True)
            if mounted.returncode != 0:
                self.skipTest("mounting a small disk needs root")
            try:
                result = self.mpirun(PROCESSES, self.command("cache", "--json", "--set", f"data.cache-dir={folder}"))
                self.assertEqual(self.model_hash(result), self.undisturbed())
                self.assertIn("No space left", result.stderr)
            finally:
                subprocess.run(["umount", "-l", folder], check=True)


if __name__ == "__main__":
    cluster.main()
