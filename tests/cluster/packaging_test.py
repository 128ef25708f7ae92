"""What lies in packaging/ for clusters: the job for Kubernetes fits its schema, ssh of its image is set up as the operator
needs it, the images' recipes name what there is, and the script for Slurm does what it says.

Checks whose program is not installed (ssh, sshd) are skipped.

Usage: packaging_test.py SOURCE-TREE PROGRAM [unittest options and cases]
"""

import copy
import json
import os
import pathlib
import re
import shutil
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
                    lambda spec: spec.update(launcherCreationPolicy="Later"),
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

    def test_the_launcher_waits_for_workers_that_can_be_reached(self):
        self.assertEqual(self.job["spec"]["launcherCreationPolicy"], "WaitForWorkersReady")
        worker = self.job["spec"]["mpiReplicaSpecs"]["Worker"]
        container = worker["template"]["spec"]["containers"][0]
        self.assertEqual(container["startupProbe"]["tcpSocket"]["port"], int(Ssh.of_daemon("Port")))
        # What died with its sshd comes back for the launcher that is started again.
        self.assertEqual(worker["restartPolicy"], "OnFailure")


class Ssh(unittest.TestCase):
    """How pods reach each other: what ssh and sshd of Dockerfile.mpi's image read."""

    HOME = "/home/antiphon/.ssh"

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    @staticmethod
    def of_daemon(name):
        text = (SOURCES / "packaging/sshd_config").read_text()
        return re.search(rf"^{name} (.*)$", text, re.MULTILINE).group(1)

    def test_workers_find_all_without_options(self):
        job = yaml.safe_load((SOURCES / "packaging/mpijob.yaml").read_text())["spec"]
        container = job["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
        # Then the operator starts `/usr/sbin/sshd -De`: the place that it reads by itself is the one that counts.
        self.assertFalse({"command", "args"} & container.keys())
        dockerfile = (SOURCES / "packaging/Dockerfile.mpi").read_text()
        self.assertIn("\nCOPY sshd_config /etc/ssh/sshd_config\n", dockerfile)
        self.assertRegex(dockerfile, r"\nCOPY ssh_config /etc/ssh/ssh_config\.d/\w+\.conf\n")
        self.assertIn('\nCMD ["/usr/sbin/sshd", "-De"]\n', dockerfile)
        self.assertEqual(job["sshAuthMountPath"], self.HOME)
        # The operator's names for the job's key.
        self.assertEqual(self.of_daemon("HostKey"), f"{self.HOME}/id_rsa")
        self.assertEqual(self.of_daemon("AuthorizedKeysFile"), ".ssh/authorized_keys")
        # Keys of the package would be the same in every copy of the image.
        self.assertIn("/etc/ssh/ssh_host_*", dockerfile)

    def daemon(self):
        """sshd's own reading of its file, with the folder of the keys elsewhere."""
        sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
        if sshd is None:
            self.skipTest("sshd is not here (scripts/setup test installs it)")
        if os.geteuid() == 0:
            pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        text = (SOURCES / "packaging/sshd_config").read_text()
        (self.folder / "sshd_config").write_text(text.replace(self.HOME, str(self.folder)))
        return subprocess.run([sshd, "-T", "-f", str(self.folder / "sshd_config")], capture_output=True, text=True,
                              check=False)

    def test_the_daemon_runs_on_the_jobs_key(self):
        without = self.daemon()
        self.assertNotEqual(without.returncode, 0)
        self.assertIn("no hostkeys", without.stderr)
        # As the operator makes it: an elliptic curve's, in PEM, whatever the name says.
        subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-m", "PEM", "-N", "", "-f",
                        str(self.folder / "id_rsa")], check=True)
        result = self.daemon()
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        for line in ("port 2222", "usepam no", "strictmodes no", "passwordauthentication no", "pidfile none"):
            self.assertIn(line, lines)

    def test_the_client_calls_the_daemons_port(self):
        if shutil.which("ssh") is None:
            self.skipTest("ssh is not here (scripts/setup test installs it)")
        result = subprocess.run(["ssh", "-G", "-F", str(SOURCES / "packaging/ssh_config"), "antiphon-worker-0"],
                                capture_output=True, text=True, check=True)
        lines = result.stdout.splitlines()
        for line in (f"port {self.of_daemon('Port')}", "stricthostkeychecking false", "userknownhostsfile /dev/null"):
            self.assertIn(line, lines)


class Images(unittest.TestCase):
    # What the program's image has no tests, benchmarks or processes for.
    WITHOUT = {"openmpi-bin", "libgtest-dev", "libgmock-dev", "librapidcheck-dev", "libbenchmark-dev"}

    def setUp(self):
        self.build, self.program = (SOURCES / "packaging/Dockerfile").read_text().split("\nFROM ")[1:]

    def test_it_installs_what_building_needs(self):
        setup = re.search(r"^build=\(([^)]*)\)", (SOURCES / "scripts/setup").read_text(), re.MULTILINE).group(1).split()
        installed = self.build.partition("--no-install-recommends")[2].partition("&&")[0].split()
        self.assertEqual(set(setup) - set(installed), self.WITHOUT)

    def test_it_copies_what_is_built(self):
        copied = {name for line in re.findall(r"^COPY (.*) \S+$", self.build, re.MULTILINE) for name in line.split()}
        for name in copied:
            self.assertTrue((SOURCES / name).exists(), name)
        cmake = "".join(path.read_text() for path in [SOURCES / "CMakeLists.txt", *(SOURCES / "cmake").glob("*.cmake")])
        named = {name for name in re.findall(r"(?:PROJECT_SOURCE_DIR\}/|SOURCES_FROM )(\w+)", cmake)
                 if (SOURCES / name).exists()}
        self.assertLessEqual({"src", "include", "apps", "recipes", "LICENSE"}, named)
        self.assertLessEqual(named, copied)

    def test_nobody_in_them_is_root(self):
        for text in (self.program, (SOURCES / "packaging/Dockerfile.mpi").read_text()):
            self.assertEqual(re.findall(r"^USER (.*)$", text, re.MULTILINE)[-1], "antiphon")
        job = yaml.safe_load((SOURCES / "packaging/mpijob.yaml").read_text())["spec"]["mpiReplicaSpecs"]
        uid = int(re.search(r"useradd .*--uid (\d+) antiphon", self.program).group(1))
        for replica in job.values():
            self.assertEqual(replica["template"]["spec"]["securityContext"]["runAsUser"], uid)


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
    played = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2, exit=False).result
    if not played.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if played.skipped else 0)  # 77: ctest shows it as skipped
