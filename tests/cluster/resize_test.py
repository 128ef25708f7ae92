"""`antiphon resize`: a training under way goes on with more or fewer workers, and learns every minibatch once.

Usage: resize_test.py SOURCE-TREE PROGRAM MPIEXEC [unittest options and cases]

The run waits at a named step (ANTIPHON_FAULT) until it was asked. With learning rates that move no weight the losses of
an epoch's minibatches add up to the same sum whoever takes them, unless one is left out or taken twice.
"""

import json
import os
import subprocess
import time
import unittest

import cluster
from cluster import OPTIONS, Cluster

STANDS_STILL = ("--set", "schedule.final-learning-rate=1e-30")
SECONDS_BETWEEN_LOOKS = 1  # into the run's folder
NOTHING_DROPPED = "max-staleness = -1"  # and so no minibatch learned again


class ResizeCase(Cluster):
    def start(self, name, *arguments, workers=2, method="ssgd", options="", step=25, command=None, harm="", env=None):
        """A run whose rank 0 has come to `step`, and waits there until it is asked. `harm`: another fault, once."""
        command = command or self.command(name, "--json", *STANDS_STILL, *arguments, workers=workers, method=method,
                               options=options, epochs=2, rate=1e-30, checkpoint_steps=0)
        marker = self.folder / f"{name}.waits"
        request = self.folder / name / "workers.toml"
        fault = f"hold rank=0 at=step step={step} seconds={SECONDS_BETWEEN_LOOKS} until={request} once={marker}"
        if harm:
            fault += f";{harm} once={self.folder / name}.happened"
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=dict(os.environ, OMP_WAIT_POLICY="passive", ANTIPHON_FAULT=fault, **(env or {})))
        end = time.monotonic() + cluster.LONGEST_SECONDS
        while not marker.exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        self.assertTrue(marker.exists(), "" if process.poll() is None else process.stderr.read())
        return process

    def resize(self, name, *arguments):
        return self.run_command([cluster.PROGRAM, "resize", str(self.folder / name), *map(str, arguments)])

    def must_resize(self, name, *arguments):
        asked = self.resize(name, *arguments)
        self.assertEqual(asked.returncode, 0, asked.stderr)

    def end(self, process):
        output, errors = process.communicate(timeout=cluster.LONGEST_SECONDS)
        self.assertEqual(process.returncode, 0, errors)
        return json.loads([line for line in output.splitlines() if line.startswith("{")][-1]), errors

    def losses(self, name):
        """Of each epoch: the frames so far, and the mean loss of what the workers learned."""
        return [(record["frames"], record["train_loss"]) for record in self.records(name) if record["kind"] == "epoch"]

    def undisturbed_losses(self, method="ssgd", options=""):
        name = f"whole-{method}-{len(options)}"
        if not (self.folder / name).exists():
            result = self.run_command(self.command(name, "--json", *STANDS_STILL, method=method, options=options,
                                                   workers=2, epochs=2, rate=1e-30, checkpoint_steps=0))
            self.assertEqual(result.returncode, 0, result.stderr)
        return self.losses(name)

    def check_every_minibatch_once(self, name, method="ssgd", options="", frames_known=True):
        """`frames_known`: none were lost together with the worker that had counted them."""
        expected = self.undisturbed_losses(method, options)
        found = self.losses(name)
        if frames_known:
            self.assertEqual([frames for frames, _ in found], [frames for frames, _ in expected])
        for (_, loss), (_, whole) in zip(found, expected, strict=True):
            self.assertAlmostEqual(loss, whole, delta=1e-6 * whole)

    def workers(self, name):
        """Of the last part of the run."""
        return self.records(name)[-1]["workers"]


class Threads(ResizeCase):
    """Workers that are threads of one process."""

    def test_methods_go_on_with_more_and_with_fewer(self):
        for method, options in (("ssgd", ""), ("asgd", NOTHING_DROPPED), ("averaging", "sync-period = 4"),
                                ("bmuf", "sync-period = 4"), ("easgd", "sync-period = 4"), ("asgd-groups", ""),
                                ("ssgd", "accumulate = 3"), ("ssgd", 'divide = "optimizer"')):
            for before, after in ((2, 4), (3, 1)):
                name = f"{method}-{before}-{after}-{len(options)}"
                with self.subTest(run=name):
                    process = self.start(name, workers=before, method=method, options=options, step=20)
                    self.must_resize(name, "--workers", after)
                    _, errors = self.end(process)
                    self.assertEqual(self.workers(name), after, errors)
                    self.assertEqual([event["what"] for event in self.events(name)], ["workers"])
                    self.check_every_minibatch_once(name, method, options)
                    self.assertIn(f"workers = {after}\n", (self.folder / name / "config.toml").read_text())

    def test_one_worker_becomes_several(self):
        process = self.start("grows", workers=1)
        self.must_resize("grows", "--workers", 3)
        self.end(process)
        self.assertEqual(self.workers("grows"), 3)
        self.check_every_minibatch_once("grows")

    def test_data_in_shares_change_hands_at_the_end_of_the_epoch(self):
        process = self.start("shares", "--set", "data.distribution=shares", workers=2, step=10)
        self.must_resize("shares", "--workers", 3)
        self.end(process)
        self.assertEqual(self.workers("shares"), 3)
        event = [event for event in self.events("shares") if event["what"] == "workers"][0]
        self.assertIn("epoch 2", event["message"])

    def test_what_the_method_refuses_leaves_the_run_as_it_was(self):
        process = self.start("refused", workers=2, method="model-parallel", step=10)
        self.must_resize("refused", "--workers", 1000)
        _, errors = self.end(process)
        self.assertIn("is not met", errors)
        self.assertEqual(self.workers("refused"), 2)

    def test_requests_that_cannot_be_are_named(self):
        process = self.start("asked", workers=2)
        for arguments, message in ((("--workers", 3, "--launch", "mpirun -np 3"), "--launch is for a run"),
                                   (("--workers", 0), "workers"), ((), "--workers")):
            refused = self.resize("asked", *arguments)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn(message, refused.stderr)
        # A file that cannot be read is set aside, and the run goes on.
        (self.folder / "asked" / "workers.toml").write_text("workers = \"many\"\n")
        _, errors = self.end(process)
        self.assertIn("is not met", errors)
        self.assertFalse((self.folder / "asked" / "workers.toml").exists())
        idle = self.resize("asked", "--workers", 3)
        self.assertEqual(idle.returncode, 2)
        self.assertIn("no training is under way", idle.stderr)
        self.assertIn("--resume", idle.stderr)


class Processes(ResizeCase):
    """Workers in processes that mpirun starts."""

    def launch(self, processes):
        return f"{cluster.MPIEXEC} -np {processes} {OPTIONS}"

    def test_other_processes_go_on(self):
        for method, options in (("ssgd", ""), ("asgd", NOTHING_DROPPED), ("bmuf", "sync-period = 4")):
            for before, after in ((2, 4), (3, 2)):
                name = f"{method}-{before}-{after}"
                with self.subTest(run=name):
                    process = self.start(name, "--launch", self.launch(before), workers=before, method=method,
                                         options=options, step=20)
                    self.must_resize(name, "--workers", after, "--launch", self.launch(after))
                    _, errors = self.end(process)
                    self.assertEqual(self.workers(name), after, errors)
                    self.check_every_minibatch_once(name, method, options)
                    logs = len(list((self.folder / name / "logs").iterdir()))
                    self.assertEqual(logs, max(before, after))
                    config = (self.folder / name / "config.toml").read_text()
                    self.assertIn(f"-np {after} ", config)

    def test_processes_that_do_not_start_leave_those_of_before(self):
        for number, launch in enumerate(("false", "no-such-launcher -np 4", f"{cluster.MPIEXEC} -np 9 {OPTIONS}")):
            name = f"unreachable-{number}"
            with self.subTest(launch=launch):
                process = self.start(name, "--launch", self.launch(2), step=20)
                self.must_resize(name, "--workers", 4, "--launch", launch)
                _, errors = self.end(process)
                self.assertIn("2 workers and", errors)
                self.assertEqual(self.workers(name), 2, errors)
                self.check_every_minibatch_once(name)

    def test_more_workers_in_the_same_processes(self):
        process = self.start("same", "--launch", self.launch(2), step=20)
        self.must_resize("same", "--workers", 5)
        self.end(process)
        self.assertEqual(self.workers("same"), 5)
        self.check_every_minibatch_once("same")

    def test_bare_mpirun_changes_workers_in_its_processes(self):
        for after in (5, 1):
            name = f"bare-{after}"
            command = self.command(name, "--json", *STANDS_STILL, workers=2, epochs=2, rate=1e-30, checkpoint_steps=0)
            process = self.start(name, step=20, command=[*self.launch(2).split(), *command])
            self.must_resize(name, "--workers", after)
            _, errors = self.end(process)
            self.assertEqual(self.workers(name), 5 if after == 5 else 2, errors)
            self.check_every_minibatch_once(name)
            if after == 1:
                self.assertIn("is not met", errors)


class Losses(ResizeCase):
    """A rank is killed while the run changes its number of workers: nothing hangs, and what was asked for is not forgotten."""

    def supervised(self, name, harm, after, restarts=0, method="ssgd", options=""):
        def launch(processes):
            return f"{cluster.MPIEXEC} -np {processes} {OPTIONS}"

        process = self.start(name, "--launch", launch(2), "--restarts", str(restarts), method=method, options=options,
                             step=20, harm=harm)
        self.must_resize(name, "--workers", after, "--launch", launch(after))
        _, errors = self.end(process)
        self.assertTrue((self.folder / f"{name}.happened").exists(), "the fault was never injected")
        self.check_every_minibatch_once(name, method, options)
        return errors

    def test_one_that_is_lost_in_the_last_save_is_not_waited_for(self):
        for method, options in (("ssgd", ""), ("bmuf", "sync-period = 4")):
            with self.subTest(method=method):
                name = f"saving-{method}"
                errors = self.supervised(name, "kill rank=1 at=saving step=1", 3, method=method, options=options)
                self.assertEqual(self.workers(name), 3, errors)
                self.assertRegex(errors, "the run .*, see above; 3 workers go on as asked, from the last checkpoint")

    def test_one_that_joins_and_is_lost_at_once_leaves_those_of_before(self):
        errors = self.supervised("joining", "kill rank=3 at=start", 4)
        self.assertEqual(self.workers("joining"), 2, errors)
        self.assertRegex(errors, "the run by 4 workers and .* go on")

    def test_one_that_has_joined_is_lost_as_any_other(self):
        errors = self.supervised("joined", "kill rank=3 at=step step=1", 4, restarts=1)
        self.assertEqual(self.workers("joined"), 4, errors)
        self.assertEqual([event["what"] for event in self.events("joined")], ["workers", "restart"])

    def surviving(self, name, processes, harm, after, method="ssgd", options=""):
        """By the fault tolerance of Open MPI 5. The kinds of the run's events."""
        folder = cluster.open_mpi_5()
        if folder is None:
            self.skipTest("no Open MPI 5 (scripts/venv installs one)")
        command = self.command(name, "--json", *STANDS_STILL, workers=processes, method=method, options=options, epochs=2,
                               rate=1e-30, checkpoint_steps=0)
        process = self.start(name, step=20, harm=harm, env={"LD_LIBRARY_PATH": str(folder / "lib")},
                             command=[str(folder / "bin/mpirun"), "--with-ft", "ulfm", "-np", str(processes),
                                      *OPTIONS.split(), *command])
        self.must_resize(name, "--workers", after)
        output, errors = process.communicate(timeout=cluster.LONGEST_SECONDS)
        self.assertTrue((self.folder / f"{name}.happened").exists(), "the fault was never injected")
        # mpirun itself tells of the dead process by its exit status.
        self.assertEqual(len([line for line in output.splitlines() if line.startswith("{")]), 1, errors)
        self.assertEqual(self.workers(name), after, errors)
        return [event["what"] for event in self.events(name)]

    def test_a_method_that_goes_on_without_the_lost_one_changes_then(self):
        events = self.surviving("lost-saving", 3, "kill rank=2 at=saving step=1", 5)
        self.assertEqual(sorted(events), ["loss", "restart", "workers"])
        # The run changes at the end of the first epoch, so that of the second one nothing is counted yet.
        self.check_every_minibatch_once("lost-saving", frames_known=False)

    def test_a_method_that_needs_all_changes_after_its_restart(self):
        options = 'divide = "optimizer"'
        events = self.surviving("lost-divided", 3, "kill rank=2 at=saving step=1", 5, options=options)
        self.assertEqual(events, ["restart", "workers"])
        self.check_every_minibatch_once("lost-divided", options=options)

    def test_the_process_of_a_joining_worker_is_lost(self):
        events = self.surviving("lost-joining", 2, "kill rank=3 at=start", 4)
        self.assertEqual(sorted(events), ["restart", "workers"])
        self.check_every_minibatch_once("lost-joining")


if __name__ == "__main__":
    cluster.main()
