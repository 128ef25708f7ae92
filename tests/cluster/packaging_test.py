"""What lies in packaging/ for clusters: the job for Kubernetes fits its schema, the script for Slurm does what it says.

Usage: packaging_test.py SOURCE-TREE PROGRAM [unittest options and cases]
"""

import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import yaml

SOURCES = pathlib.Path(sys.argv[1])
PROGRAM = sys.argv[2]

# Stands in for srun and sbatch: writes down how it was called; srun ends with the next of the statuses in a file.
FAKE = """#!/bin/sh
echo "$(basename "$0") $*" >> "{log}"
[ "$(basename "$0")" = srun ] || exit 0
status=$(head -n 1 "{statuses}")
sed -i 1d "{statuses}"
exit "$status"
"""


class Kubernetes(unittest.TestCase):
    def setUp(self):
        self.job = yaml.safe_load((SOURCES / "packaging/mpijob.yaml").read_text())
        self.schema = json.loads((SOURCES / "tests/cluster/mpijob_schema.json").read_text())

    def test_the_job_fits_the_operators_schema(self):
        jsonschema.validate(self.job, self.schema)

    def test_the_schema_finds_mistakes(self):
        def broken(change):
            job = copy.deepcopy(self.job)
            change(job["spec"])
            return job

        mistakes = [lambda spec: spec.update(slotsPerWorker="1"), lambda spec: spec.update(sshAuthPath="/x"),
                    lambda spec: spec["runPolicy"].update(cleanPodPolicy="Some"),
                    lambda spec: spec["mpiReplicaSpecs"].pop("Worker"),
                    lambda spec: spec["mpiReplicaSpecs"]["Worker"].update(restartPolicy="Sometimes"),
                    lambda spec: spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0].pop("image")]
        for change in mistakes:
            with self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate(broken(change), self.schema)

    def test_mounts_have_volumes_and_the_command_is_one_that_there_is(self):
        for name, replica in self.job["spec"]["mpiReplicaSpecs"].items():
            pod = replica["template"]["spec"]
            volumes = {volume["name"] for volume in pod.get("volumes", [])}
            for container in pod["containers"]:
                for mount in container.get("volumeMounts", []):
                    self.assertIn(mount["name"], volumes, name)
        arguments = self.job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["args"]
        command = arguments[arguments.index("antiphon") + 1:]
        result = subprocess.run([PROGRAM, *command], capture_output=True, text=True, check=False)
        # Known options; only the files are not here.
        self.assertIn("/data/run.toml", result.stderr)

    def test_it_is_the_job_that_the_guide_describes(self):
        spec = self.job["spec"]
        launcher, worker = (spec["mpiReplicaSpecs"][name] for name in ("Launcher", "Worker"))
        self.assertEqual(worker["replicas"], 4)
        pod = worker["template"]["spec"]
        self.assertEqual(pod["containers"][0]["resources"]["limits"]["cpu"], "8")
        places = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        self.assertIn("persistentVolumeClaim", volumes[places["/data"]], "data and output")
        self.assertIn("emptyDir", volumes[places["/scratch"]], "caches")
        arguments = launcher["template"]["spec"]["containers"][0]["args"]
        for option in ("--config", "--store", "--out"):
            self.assertTrue(arguments[arguments.index(option) + 1].startswith("/data/"), option)
        # A launcher that failed goes on from the last checkpoint.
        self.assertEqual(launcher["restartPolicy"], "OnFailure")
        self.assertGreater(spec["runPolicy"]["backoffLimit"], 0)
        self.assertIn("--resume", arguments)

    def test_keys_lie_where_the_image_looks_for_them(self):
        home = self.job["spec"]["sshAuthMountPath"]
        dockerfile = (SOURCES / "packaging/Dockerfile.mpi").read_text()
        self.assertIn(f"mkdir -p {home}", dockerfile)
        sshd = (SOURCES / "packaging/sshd_config").read_text()
        self.assertIn("AuthorizedKeysFile .ssh/authorized_keys", sshd)
        port = next(line.split()[1] for line in sshd.splitlines() if line.startswith("Port"))
        self.assertIn(f"Port {port}", dockerfile)


class Slurm(unittest.TestCase):
    def play(self, *statuses):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            log, left = folder / "log", folder / "statuses"
            log.touch()
            left.write_text("".join(f"{status}\n" for status in statuses))
            for name in ("srun", "sbatch"):
                (folder / name).write_text(FAKE.format(log=log, statuses=left))
                (folder / name).chmod(0o755)
            script = SOURCES / "packaging/slurm.sh"
            environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", SLURM_CPUS_PER_TASK="16")
            result = subprocess.run([str(script), "run.toml", "store", "exp"], env=environment, capture_output=True,
                                    text=True, check=False)
            self.assertEqual(left.read_text(), "", "steps that were never started")
            return result.returncode, log.read_text().splitlines()

    def test_a_finished_run_ends_the_job(self):
        status, calls = self.play(0)
        self.assertEqual(status, 0)
        self.assertEqual(calls, ["srun --mpi=pmix --cpus-per-task=16 antiphon train --config run.toml --store store "
                                 "--out exp --resume"])

    def test_at_the_time_limit_the_job_submits_itself_again(self):
        status, calls = self.play(3)
        self.assertEqual(status, 0)
        self.assertRegex(calls[-1], r"^sbatch .*slurm\.sh run\.toml store exp$")

    def test_failures_are_tried_again_refusals_not(self):
        self.assertEqual([self.play(1, 1, 0)[0], self.play(1, 137, 1)[0]], [0, 1])
        status, calls = self.play(2)
        self.assertEqual((status, len(calls)), (2, 1))

    def test_slurm_is_asked_for_one_process_per_node_and_for_time_to_save(self):
        script = (SOURCES / "packaging/slurm.sh").read_text()
        self.assertIn("#SBATCH --ntasks-per-node=1\n", script)
        self.assertRegex(script, r"#SBATCH --signal=USR1@\d+\n")

    def test_wrong_use_is_explained(self):
        result = subprocess.run([str(SOURCES / "packaging/slurm.sh")], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("CONFIG STORE OUT", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
