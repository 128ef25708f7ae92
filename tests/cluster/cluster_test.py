"""`antiphon train` over several processes: one model in every placement, and what happens when something is wrong.

Usage: cluster_test.py SOURCE-TREE PROGRAM LOSING-PROGRAM MPIEXEC [unittest options and cases]

The cases of Survival need an Open MPI 5: in the folder (with bin/ and lib/) that ANTIPHON_OPENMPI5 names, or in the Python
environment of the tests (scripts/venv puts one there). Without one they are skipped.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCES = ""
PROGRAM = ""
LOSING_PROGRAM = ""
MPIEXEC = ""
OPTIONS = "--oversubscribe --allow-run-as-root --bind-to none"
# Nothing here may hang; what takes longer than this counts as hanging.
LONGEST_SECONDS = 240

CONFIG = """
threads = 1
log-steps = 5
[data]
minibatch = 32
left-context = 1
right-context = 1
[schedule]
epochs = {epochs}
learning-rate = 0.3
final-learning-rate = 0.05
[held-out]
fraction = 0.2
[checkpoint]
steps = 20
[parallel]
method = "{method}"
workers = 4
[[network.layer]]
type = "affine"
dim = 32
[[network.layer]]
type = "relu"
[[network.layer]]
type = "affine"
"""


def open_mpi_5():
    """Its folder, or None."""
    python = pathlib.Path(os.environ.get("ANTIPHON_PYTHON", pathlib.Path(SOURCES) / ".venv/bin/python"))
    folder = pathlib.Path(os.environ.get("ANTIPHON_OPENMPI5", python.parent.parent))
    return folder if (folder / "bin/mpirun").exists() and (folder / "lib/libmpi.so.40").exists() else None


def write_data(folder):
    """Noisy classes in runs, by six speakers, as text archives."""
    rng = random.Random(1)
    means = [[rng.gauss(0, 1) for _ in range(5)] for _ in range(6)]
    with open(folder / "feats.ark", "w") as feats, open(folder / "pdf.ark", "w") as pdfs, \
            open(folder / "utt2spk", "w") as speakers:
        for speaker in range(6):
            for utterance in range(5):
                name = f"s{speaker}-u{utterance}"
                ids = []
                rows = []
                for _ in range(90):
                    ids.append(ids[-1] if ids and rng.random() < 0.8 else rng.randrange(6))
                    rows.append(" ".join(f"{m + rng.gauss(0, 0.7):.4f}" for m in means[ids[-1]]))
                feats.write(f"{name}  [\n  " + "\n  ".join(rows) + " ]\n")
                pdfs.write(f"{name} {' '.join(map(str, ids))}\n")
                speakers.write(f"{name} s{speaker}\n")


def alive_ranks(folder):
    """{rank: process id} of the training processes of a run folder; a supervised process without a launcher is rank 0."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_text()
            if str(folder) not in arguments or os.readlink(entry / "exe") != PROGRAM:
                continue
            environment = dict(item.split("=", 1) for item in (entry / "environ").read_text().split("\0") if "=" in item)
        except (OSError, ValueError):
            continue
        rank = environment.get("OMPI_COMM_WORLD_RANK", "0" if f"{folder}/config.toml" in arguments else None)
        if rank is not None:
            found[int(rank)] = int(entry.name)
    return found


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        write_data(cls.folder)
        cls.store = cls.folder / "store"
        subprocess.run([PROGRAM, "store", "--features", "ark:" + str(cls.folder / "feats.ark"), "--alignment",
                        "ark:" + str(cls.folder / "pdf.ark"), "--utt2spk", str(cls.folder / "utt2spk"), "--out",
                        str(cls.store)], check=True, capture_output=True)
        cls.reference = {}

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def config(self, method="ssgd", epochs=3):
        path = self.folder / f"{method}-{epochs}.toml"
        path.write_text(CONFIG.format(method=method, epochs=epochs))
        return str(path)

    def command(self, name, *arguments, store=None, **config):
        return [PROGRAM, "train", "--config", self.config(**config), "--store", str(store or self.store), "--out",
                str(self.folder / name), *arguments]

    def run_command(self, command, **options):
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", **options.pop("env", {}))
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment,
                              timeout=LONGEST_SECONDS, **options)

    def mpirun(self, processes, *programs):
        parts = []
        for program in programs:
            parts += [":"] if parts else []
            parts += ["-np", str(processes), *program]
        return self.run_command([MPIEXEC, *OPTIONS.split(), *parts])

    def model_hash(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout.strip().splitlines()[-1])["model_hash"]

    def undisturbed(self, **config):
        key = json.dumps(config, sort_keys=True)
        if key not in self.reference:
            self.reference[key] = self.model_hash(
                self.run_command(self.command("undisturbed" + str(len(self.reference)), "--json", **config)))
        return self.reference[key]

    def events(self, name):
        lines = (self.folder / name / "metrics.jsonl").read_text().splitlines()
        return [record for record in map(json.loads, lines) if record["kind"] == "event"]

    def wait_for_step(self, name, step):
        """Until the run has logged a step at or behind `step`."""
        path = self.folder / name / "metrics.jsonl"
        end = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < end:
            try:
                for line in path.read_text().splitlines():
                    if json.loads(line).get("step", -1) >= step:
                        return
            except (OSError, ValueError):
                pass
            time.sleep(0.02)
        self.fail(f"step {step} never came")

    def wait_for_ranks(self, name, count):
        end = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < end:
            ranks = alive_ranks(self.folder / name)
            if len(ranks) >= count:
                return ranks
            time.sleep(0.02)
        self.fail("the ranks never came up")


class Placement(Cluster):
    def test_processes_times_threads_give_one_model(self):
        expected = self.undisturbed()
        for processes in (2, 4):
            name = f"by{processes}"
            self.assertEqual(self.model_hash(self.mpirun(processes, self.command(name, "--json"))), expected, processes)
            # Only rank 0 writes the run's files; checkpoints are each rank's own.
            names = sorted(path.name for path in (self.folder / name).iterdir())
            self.assertEqual(names, sorted(path.name for path in (self.folder / "undisturbed0").iterdir()))


class Refusals(Cluster):
    def test_fewer_workers_than_processes(self):
        result = self.mpirun(2, self.command("few", "--set", "parallel.workers=1"))
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("2 processes were started for 1 worker(s)", result.stderr)

    def test_different_configurations(self):
        result = self.mpirun(1, self.command("conf", "--seed", "1"), self.command("conf", "--seed", "2"))
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("has 'seed = 2', rank 0 'seed = 1'", result.stderr)

    def test_different_programs(self):
        other = self.folder / "antiphon"
        shutil.copy(PROGRAM, other)
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
        launch = f"{MPIEXEC} -np {processes} {OPTIONS}" if processes > 1 else ""
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
        command = self.command("asked", "--restarts", "2", "--launch", f"{MPIEXEC} -np 2 {OPTIONS}", epochs=self.EPOCHS)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True)
        self.wait_for_step("asked", 60)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=LONGEST_SECONDS)
        self.assertEqual(process.returncode, 3)
        self.assertIn("stopped on request", errors)
        self.assertEqual(self.model_hash(self.run_command(self.command("asked", "--json", "--resume", epochs=self.EPOCHS))),
                         self.undisturbed(epochs=self.EPOCHS))

    def test_a_signal_to_the_ranks_saves_and_is_no_failure(self):
        result = self.harmed("asked-ranks", 0, 60, lambda pid: os.kill(pid, signal.SIGUSR1))
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("stopped on request", result.stderr)
        self.assertEqual(self.events("asked-ranks"), [])

    def test_stop(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                name = f"stop-{rank}"
                self.check_restarted(name, self.harmed(name, rank, 60, lambda pid: os.kill(pid, signal.SIGSTOP),
                                                       "--deadline-seconds", "4"))

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
        process = subprocess.Popen([MPIEXEC, "-np", "2", *OPTIONS.split(), *command], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        ranks = self.wait_for_ranks("dead", 2)
        self.wait_for_step("dead", 60)
        os.kill(ranks[1], signal.SIGKILL)
        _, errors = process.communicate(timeout=LONGEST_SECONDS)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("killed", errors.lower())


class Survival(Cluster):
    """With the fault tolerance of Open MPI 5 the processes that are left carry all workers on."""

    def mpirun_5(self, processes, *command):
        folder = open_mpi_5()
        if folder is None:
            self.skipTest("no Open MPI 5 (scripts/venv installs one)")
        return subprocess.Popen(
            [str(folder / "bin/mpirun"), "--with-ft", "ulfm", "-np", str(processes), *OPTIONS.split(), *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, LD_LIBRARY_PATH=str(folder / "lib"), OMP_WAIT_POLICY="passive"))

    def test_sums_go_on_without_the_lost_process(self):
        process = self.mpirun_5(3, LOSING_PROGRAM)
        output, errors = process.communicate(timeout=LONGEST_SECONDS)
        self.assertEqual(output.splitlines().count("all sums as with all processes"), 2, output + errors)

    def test_a_killed_process_costs_no_restart_and_no_bit(self):
        for rank in (1, 0):
            with self.subTest(rank=rank):
                name = f"lost-{rank}"
                process = self.mpirun_5(2, *self.command(name, "--json", epochs=60))
                ranks = self.wait_for_ranks(name, 2)
                self.wait_for_step(name, 60)
                os.kill(ranks[rank], signal.SIGKILL)
                output, errors = process.communicate(timeout=LONGEST_SECONDS)
                lines = [line for line in output.splitlines() if line.startswith("{")]
                self.assertTrue(lines, errors)
                self.assertEqual(json.loads(lines[-1])["model_hash"], self.undisturbed(epochs=60))
                self.assertEqual([event["what"] for event in self.events(name)], ["restart"])


if __name__ == "__main__":
    SOURCES = sys.argv[1]
    PROGRAM = os.path.realpath(sys.argv[2])
    LOSING_PROGRAM = sys.argv[3]
    MPIEXEC = sys.argv[4]
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
