"""`antiphon train` over several processes: one model in every placement, and what happens when something is wrong.

Usage: cluster_test.py SOURCE-TREE PROGRAM MPIEXEC [unittest options and cases]

The cases of Survival need an Open MPI 5: in the folder (with bin/ and lib/) that ANTIPHON_OPENMPI5 names, or in the Python
environment of the tests (scripts/venv puts one there). Without one they are skipped. ANTIPHON_LOSING_PROGRAM names the
program comm_losing_test.
"""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import cluster
from cluster import LONGEST_SECONDS, OPTIONS, Cluster


class Placement(Cluster):
    def test_processes_times_threads_give_one_model(self):
        expected = self.undisturbed()
        for processes in (2, 4):
            name = f"by{processes}"
            self.assertEqual(self.model_hash(self.mpirun(processes, self.command(name, "--json"))), expected, processes)
            # Only rank 0 writes the run's files; checkpoints are each rank's own, and so are logs.
            names = sorted(path.name for path in (self.folder / name).iterdir() if path.name != "logs")
            self.assertEqual(names, sorted(path.name for path in (self.folder / "undisturbed0").iterdir()))
            for process in range(processes):
                log = (self.folder / name / "logs" / f"process-{process}.log").read_text()
                self.assertRegex(log, f"^[-0-9]+ [:.0-9]+ info process {process} begins, number [0-9]+ on '.+'\n")
                self.assertEqual(log.count(" begins, number "), 1)
            # What rank 0 says on standard error stands in its own, too.
            self.assertIn("epoch 1", (self.folder / name / "logs/process-0.log").read_text())


class Refusals(Cluster):
    def test_fewer_workers_than_processes(self):
        result = self.mpirun(2, self.command("few", "--set", "parallel.workers=1"))
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("2 processes were started for 1 worker(s)", result.stderr)

    def test_a_refused_run_is_not_started_again(self):
        launch = f"{cluster.MPIEXEC} -np 2 {OPTIONS}"
        command = self.command("refused", "--set", "parallel.workers=1", "--restarts", "2", "--launch", launch)
        result = self.run_command(command)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("2 processes were started for 1 worker(s)", result.stderr)
        self.assertEqual(result.stderr.count("2 processes by"), 1, result.stderr)

    def test_different_configurations(self):
        result = self.mpirun(1, self.command("conf", "--seed", "1"), self.command("conf", "--seed", "2"))
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("has 'seed = 2', rank 0 'seed = 1'", result.stderr)

    def test_different_programs(self):
        other = self.folder / "antiphon"
        shutil.copy(cluster.PROGRAM, other)
        with open(other, "ab") as file:
            file.write(b"another build")
        command = self.command("prog")
        result = self.mpirun(1, command, [str(other), *command[1:]])
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("the processes run different programs", result.stderr)

    def test_a_shard_that_one_process_lacks(self):
        other = self.folder / "store-with-a-hole"
        shutil.copytree(self.store, other)
        for path in other.glob("*.frames"):
            path.unlink()
        result = self.mpirun(1, self.command("hole"), self.command("hole", store=other))
        self.assertNotIn(result.returncode, (0, 2), result.stderr)
        self.assertIn("process 1 of 2", result.stderr)
        self.assertIn("store-with-a-hole", result.stderr)

    def test_restarts_belong_outside(self):
        result = self.mpirun(2, self.command("inside", "--restarts", "1"))
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--launch", result.stderr)


class Faults(Cluster):
    """Two processes of two workers; one of them is harmed at some moment."""
    EPOCHS = 60

    def harmed(self, name, rank, step, harm, *arguments, processes=2):
        """Runs with restarts allowed and harms a rank when `step` has been logged (0: as soon as it is there)."""
        launch = f"{cluster.MPIEXEC} -np {processes} {OPTIONS}" if processes > 1 else ""
        command = self.command(name, "--json", "--restarts", "2", "--launch", launch, *arguments, epochs=self.EPOCHS)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=dict(os.environ, OMP_WAIT_POLICY="passive"))
        try:
            ranks = self.wait_for_ranks(name, processes)
            if step > 0:
                self.wait_for_step(name, step)
            harm(ranks[rank])
            output, errors = process.communicate(timeout=LONGEST_SECONDS)
        finally:
            process.kill()
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def check_restarted(self, name, result):
        self.assertEqual(self.model_hash(result), self.undisturbed(epochs=self.EPOCHS))
        self.assertEqual([event["what"] for event in self.events(name)], ["restart"], result.stderr)

    def test_kill(self):
        for rank, step in ((0, 0), (1, 0), (0, 60), (1, 60)):
            with self.subTest(rank=rank, step=step):
                name = f"kill-{rank}-{step}"
                self.check_restarted(name, self.harmed(name, rank, step, lambda pid: os.kill(pid, signal.SIGKILL)))

    def test_kill_of_one_process_with_threads(self):
        result = self.harmed("kill-threads", 0, 60, lambda pid: os.kill(pid, signal.SIGKILL), processes=1)
        self.check_restarted("kill-threads", result)

    def test_a_signal_to_the_supervisor_saves_and_stops(self):
        launch = f"{cluster.MPIEXEC} -np 2 {OPTIONS}"
        command = self.command("asked", "--restarts", "2", "--launch", launch, epochs=self.EPOCHS)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True)
        self.wait_for_step("asked", 60)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=LONGEST_SECONDS)
        self.assertEqual(process.returncode, 3)
        self.assertIn("stopped on request", errors)
        again = self.run_command(self.command("asked", "--json", "--resume", epochs=self.EPOCHS))
        self.assertEqual(self.model_hash(again), self.undisturbed(epochs=self.EPOCHS))

    def test_a_signal_to_the_ranks_saves_and_is_no_failure(self):
        result = self.harmed("asked-ranks", 0, 60, lambda pid: os.kill(pid, signal.SIGUSR1))
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("stopped on request", result.stderr)
        self.assertEqual(self.events("asked-ranks"), [])

    def test_a_run_ends_with_its_supervisor(self):
        for name, processes in (("orphan", 1), ("orphans", 2)):
            with self.subTest(processes=processes):
                launch = f"{cluster.MPIEXEC} -np {processes} {OPTIONS}" if processes > 1 else ""
                command = self.command(name, "--restarts", "2", "--launch", launch, epochs=self.EPOCHS)
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
                self.wait_for_step(name, 60)
                process.kill()
                process.wait()
                end = time.monotonic() + LONGEST_SECONDS
                while cluster.alive_ranks(self.folder / name) and time.monotonic() < end:
                    time.sleep(0.02)
                self.assertEqual(cluster.alive_ranks(self.folder / name), {})
                again = self.run_command(self.command(name, "--json", "--resume", epochs=self.EPOCHS))
                self.assertEqual(self.model_hash(again), self.undisturbed(epochs=self.EPOCHS))

    def test_stop(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                name = f"stop-{rank}"
                self.check_restarted(name, self.harmed(name, rank, 60, lambda pid: os.kill(pid, signal.SIGSTOP),
                                                       "--deadline-seconds", "12"))

    def test_slow(self):
        def pause(pid):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(2)
            os.kill(pid, signal.SIGCONT)

        result = self.harmed("slow", 1, 60, pause)
        self.assertEqual(self.model_hash(result), self.undisturbed(epochs=self.EPOCHS))
        self.assertEqual(self.events("slow"), [])

    def test_without_restarts_a_killed_rank_ends_the_run_with_an_error(self):
        command = self.command("dead", epochs=self.EPOCHS)
        process = subprocess.Popen([cluster.MPIEXEC, "-np", "2", *OPTIONS.split(), *command], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        ranks = self.wait_for_ranks("dead", 2)
        self.wait_for_step("dead", 60)
        os.kill(ranks[1], signal.SIGKILL)
        _, errors = process.communicate(timeout=LONGEST_SECONDS)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("killed", errors.lower())


class Survival(Cluster):
    """With the fault tolerance of Open MPI 5 the processes that are left carry all workers on."""

    def test_sums_go_on_without_the_lost_process(self):
        for arguments in ([], ["ends"]):
            with self.subTest(arguments=arguments):
                process = self.mpirun_5(3, os.environ["ANTIPHON_LOSING_PROGRAM"], *arguments)
                output, errors = process.communicate(timeout=LONGEST_SECONDS)
                self.assertEqual(output.splitlines().count("all sums as with all processes"), 2, output + errors)

    def test_a_killed_process_costs_no_restart_and_no_bit(self):
        for rank in (1, 0):
            with self.subTest(rank=rank):
                name = f"lost-{rank}"
                # Where each worker keeps something of its own, nothing else than the last checkpoint will do.
                config = {"epochs": 60, "options": 'divide = "optimizer"'}
                process = self.mpirun_5(2, *self.command(name, "--json", **config))
                ranks = self.wait_for_ranks(name, 2)
                self.wait_for_step(name, 60)
                os.kill(ranks[rank], signal.SIGKILL)
                output, errors = process.communicate(timeout=LONGEST_SECONDS)
                lines = [line for line in output.splitlines() if line.startswith("{")]
                self.assertTrue(lines, errors)
                self.assertEqual(json.loads(lines[-1])["model_hash"], self.undisturbed(**config))
                self.assertEqual([event["what"] for event in self.events(name)], ["restart"])


if __name__ == "__main__":
    cluster.main()
