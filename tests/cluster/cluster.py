"""What the tests of training over several processes share: data, a configuration, ways to start it and to look at it.

A test program calls `main`, which takes SOURCE-TREE PROGRAM MPIEXEC and unittest's options from the command line.
"""

import hashlib
import json
import os
import pathlib
import random
import shlex
import subprocess
import sys
import tempfile
import time
import unittest

SOURCES = ""
PROGRAM = ""
MPIEXEC = ""
OPTIONS = "--oversubscribe --allow-run-as-root --bind-to none"
# Nothing here may hang; what takes longer than this counts as hanging.
LONGEST_SECONDS = 240

CONFIG = """
threads = 1
log-steps = 5
deadline-seconds = {deadline}
[data]
minibatch = 32
left-context = 1
right-context = 1
[schedule]
epochs = {epochs}
learning-rate = {rate}
final-learning-rate = 0.05
[held-out]
fraction = 0.2
[checkpoint]
steps = {checkpoint_steps}
[parallel]
method = "{method}"
workers = {workers}
{options}
[[network.layer]]
type = "affine"
dim = 32
[[network.layer]]
type = "relu"
[[network.layer]]
type = "affine"
"""


def config_text(method="ssgd", options="", workers=4, epochs=3, rate=0.3, checkpoint_steps=20, deadline=60):
    """`options`: further lines of [parallel]."""
    return CONFIG.format(**locals())


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
    """{rank: process id} of the training processes of a run folder; one that is supervised without a launcher is rank 0."""
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
        rank = environment.get("OMPI_COMM_WORLD_RANK", "0" if f"{folder}/supervised.toml" in arguments else None)
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

    def config(self, **settings):
        """The file of a configuration, see config_text."""
        text = config_text(**settings)
        path = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.toml"
        path.write_text(text)
        return str(path)

    def command(self, name, *arguments, store=None, **config):
        return [PROGRAM, "train", "--config", self.config(**config), "--store", str(store or self.store), "--out",
                str(self.folder / name), *arguments]

    def run_command(self, command, **options):
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", **options.pop("env", {}))
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment,
                              timeout=LONGEST_SECONDS, **options)

    def mpirun(self, processes, *programs, env=None):
        """So many processes of each program. A shell chooses by rank: mpirun of Open MPI 5.0.7 crashes at "a : b"."""
        start = [MPIEXEC, *OPTIONS.split(), "-np", str(processes * len(programs))]
        if len(programs) == 1:
            return self.run_command([*start, *programs[0]], env=env or {})
        cases = "".join(f"{number}) exec {shlex.join(program)} ;; " for number, program in enumerate(programs))
        return self.run_command([*start, "sh", "-c",
                                 f"case $((OMPI_COMM_WORLD_RANK / {processes})) in {cases}esac"], env=env or {})

    def model_hash(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout.strip().splitlines()[-1])["model_hash"]

    def undisturbed(self, **config):
        key = json.dumps(config, sort_keys=True)
        if key not in self.reference:
            self.reference[key] = self.model_hash(
                self.run_command(self.command("undisturbed" + str(len(self.reference)), "--json", **config)))
        return self.reference[key]

    def records(self, name):
        return [json.loads(line) for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()]

    def events(self, name):
        return [record for record in self.records(name) if record["kind"] == "event"]

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

    def mpirun_5(self, processes, *command, env=None):
        """Starts it with the fault tolerance of Open MPI 5."""
        folder = open_mpi_5()
        if folder is None:
            self.skipTest("no Open MPI 5 (scripts/venv installs one)")
        return subprocess.Popen(
            [str(folder / "bin/mpirun"), "--with-ft", "ulfm", "-np", str(processes), *OPTIONS.split(), *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, LD_LIBRARY_PATH=str(folder / "lib"), OMP_WAIT_POLICY="passive", **(env or {})))


def main(arguments=sys.argv):
    """Ends with status 1 if a case failed, else with 77, which ctest knows as skipped, if one was skipped."""
    global SOURCES, PROGRAM, MPIEXEC
    SOURCES, PROGRAM, MPIEXEC = arguments[1], os.path.realpath(arguments[2]), arguments[3]
    result = unittest.main(argv=[arguments[0], *arguments[4:]], verbosity=2, exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.skipped else 0)
