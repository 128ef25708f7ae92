"""The walk-through of docs/guides/clusters.md, played through: two plain machines, ssh, a hostfile, a firewall.

The machines are network namespaces with a name and a file system of their own mount each, joined by a cable; on the second
one runs sshd. Needs root, iproute2, sshd and an Open MPI; without the right to make namespaces the test is skipped.

Usage: two_hosts_test.py SOURCE-TREE PROGRAM MPIEXEC [unittest options and cases]
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import cluster
from cluster import LONGEST_SECONDS, Cluster

SUBNET = "10.78.0"
# As the walk-through names them.
MPI_PORTS, DAEMON_PORTS = "20000-20099", "20100-20199"
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin")
SSHD_CONFIG = """
Port 22
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/id.pub
PidFile {folder}/sshd.pid
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
"""
FIREWALL = """
table inet walk {{
  chain input {{
    type filter hook input priority 0; policy drop;
    iif lo accept
    ct state established,related accept
    tcp dport {{ {ports} }} accept
  }}
}}
"""


def run(command, **options):
    return subprocess.run(shlex.split(command) if isinstance(command, str) else command, capture_output=True, text=True,
                          timeout=LONGEST_SECONDS, check=False, **options)


class TwoHosts(Cluster):
    @classmethod
    def setUpClass(cls):
        if SSHD is None:
            raise unittest.SkipTest("sshd is not here (scripts/setup test installs it)")
        cls.prefix = f"walk{os.getpid()}"
        if run(f"ip netns add {cls.prefix}a").returncode != 0:
            raise unittest.SkipTest("no right to make network namespaces")
        cls.addClassCleanup(cls.take_down)
        entered = run(cls.in_machine("a") + "true")
        if entered.returncode != 0:
            raise unittest.SkipTest(f"no way into a network namespace: {entered.stderr.strip()}")
        super().setUpClass()
        version = run([cluster.MPIEXEC, "--version"]).stdout
        # How mpirun reaches other machines: named rsh up to Open MPI 4, ssh since 5.
        cls.launcher = "ssh" if re.search(r"\(Open MPI\) [5-9]", version) else "rsh"
        cls.build_machines()
        cls.start_sshd()

    @classmethod
    def in_machine(cls, machine):
        return f"ip netns exec {cls.prefix}{machine} "

    @classmethod
    def must(cls, command):
        result = run(command)
        if result.returncode != 0:
            raise AssertionError(f"{command}: {result.stderr}")

    @classmethod
    def build_machines(cls):
        cls.must(f"ip netns add {cls.prefix}b")
        cls.must(f"ip link add eth0 netns {cls.prefix}a type veth peer name eth0 netns {cls.prefix}b")
        for number, machine in enumerate("ab"):
            inside = cls.in_machine(machine)
            cls.must(inside + f"ip addr add {SUBNET}.{number + 1}/24 dev eth0")
            # A second interface that leads nowhere, as those of containers do.
            cls.must(inside + "ip link add docker0 type bridge")
            cls.must(inside + "ip addr add 172.17.0.1/16 dev docker0")
            for device in ("lo", "eth0", "docker0"):
                cls.must(inside + f"ip link set {device} up")
            names = pathlib.Path(f"/etc/netns/{cls.prefix}{machine}")
            names.mkdir(parents=True)
            (names / "hosts").write_text(f"127.0.0.1 localhost\n{SUBNET}.1 hosta\n{SUBNET}.2 hostb\n")

    @classmethod
    def start_sshd(cls):
        folder = cls.folder
        for name in ("host_key", "id"):
            cls.must(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)])
        (folder / "sshd_config").write_text(SSHD_CONFIG.format(address=f"{SUBNET}.2", folder=folder))
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        cls.sshd = subprocess.Popen(
            [*shlex.split(cls.in_machine("b")), "unshare", "--uts", "sh", "-c",
             f"hostname hostb && exec {SSHD} -D -e -f {folder}/sshd_config"], stderr=subprocess.DEVNULL)
        (folder / "ssh_config").write_text(f"IdentityFile {folder}/id\nStrictHostKeyChecking accept-new\n"
                                           f"UserKnownHostsFile {folder}/known_hosts\nLogLevel ERROR\n")
        end = time.monotonic() + 60
        while cls.on_a(["ssh", "-F", str(folder / "ssh_config"), "hostb", "hostname"]).stdout.strip() != "hostb":
            if time.monotonic() > end:
                raise AssertionError("sshd does not answer")
            time.sleep(0.2)

    @classmethod
    def take_down(cls):
        if hasattr(cls, "sshd"):
            cls.sshd.terminate()
            cls.sshd.wait()
        for machine in "ab":
            run(f"ip netns del {cls.prefix}{machine}")
            shutil.rmtree(f"/etc/netns/{cls.prefix}{machine}", ignore_errors=True)

    @classmethod
    def on_a(cls, command, env=None):
        return run([*shlex.split(cls.in_machine("a")), "unshare", "--uts", "sh", "-c",
                    "hostname hosta && exec " + shlex.join(command)],
                   env=dict(os.environ, OMP_WAIT_POLICY="passive", **(env or {})))

    def walk(self, name, *options, remote=None, arguments=(), env=None, **config):
        """`remote`: how hostb is reached; without, by ssh."""
        hosts = self.folder / "hosts"
        hosts.write_text("hosta slots=1\nhostb slots=1\n")
        remote = remote or ("--mca", f"plm_{self.launcher}_args", f"-F {self.folder}/ssh_config")
        carried = [word for variable in env or {} for word in ("-x", variable)]
        return self.on_a([cluster.MPIEXEC, "--allow-run-as-root", "-np", "2", "--hostfile", str(hosts), "--bind-to", "none",
                          "--mca", "plm", self.launcher, *remote, *carried, *options,
                          *self.command(name, "--json", *arguments, **config)], env)

    def with_disk(self, disk, place):
        """A way to hostb, where `disk` lies at `place`: a mount of its own."""
        agent = self.folder / f"agent-{disk.name}"
        agent.write_text(f"#!/bin/sh\nwhile case $1 in -*) true;; *) false;; esac; do shift; done\nshift\n"
                         f"exec ip netns exec {self.prefix}b unshare --uts --mount sh -c "
                         f"\"hostname hostb; mount --bind {disk} {place}; $*\"\n")
        agent.chmod(0o755)
        return "--mca", f"plm_{self.launcher}_agent", str(agent)

    INTERFACE = ("--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0")

    def test_two_machines_train_the_model_of_one(self):
        result = self.walk("plain", *self.INTERFACE)
        self.assertEqual(self.model_hash(result), self.undisturbed())
        # Rank 0's machine writes the run's files.
        self.assertTrue((self.folder / "plain/model.safetensors").exists())

    def test_sums_go_inside_the_machines_first(self):
        result = self.walk("bmuf", *self.INTERFACE, method="bmuf", workers=6)
        self.assertEqual(self.model_hash(result), self.undisturbed(method="bmuf", workers=6))

    def test_behind_firewalls_with_the_ports_of_the_walk_through(self):
        if shutil.which("nft", path="/usr/sbin:/usr/bin") is None:
            self.skipTest("nft is not here")
        ports = f"22, {MPI_PORTS}, {DAEMON_PORTS}"
        for machine in "ab":
            loaded = run(self.in_machine(machine) + "nft -f -", input=FIREWALL.format(ports=ports))
            if loaded.returncode != 0:
                self.skipTest(f"this kernel has no nftables: {loaded.stderr.strip()}")
            self.addCleanup(run, self.in_machine(machine) + "nft flush ruleset")
        knock = self.on_a([sys.executable, "-c", "import socket; socket.create_connection(('hostb', 9), 2)"])
        self.assertIn("timed out", knock.stderr, "the firewall lets through what it should not")
        result = self.walk("firewall", *self.INTERFACE, "--mca", "btl_tcp_port_min_v4", MPI_PORTS.split("-")[0], "--mca",
                           "btl_tcp_port_range_v4", "100", "--mca", "oob_tcp_dynamic_ipv4_ports", DAEMON_PORTS)
        self.assertEqual(self.model_hash(result), self.undisturbed())

    def test_a_machine_without_the_data_says_so(self):
        hidden = self.folder / "elsewhere"
        hidden.mkdir()
        result = self.walk("hidden", *self.INTERFACE, remote=self.with_disk(hidden, self.store))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("store", result.stderr)

    def test_checkpoints_on_the_machines_own_disks(self):
        here, there = self.folder / "own", self.folder / "own-of-b"
        here.mkdir()
        there.mkdir()

        def train(*arguments, env=None):
            return self.walk("own", *self.INTERFACE, remote=self.with_disk(there, here), arguments=arguments, env=env)

        def ranks(folder):
            return {path.name.rsplit("rank-", 1)[-1].split(".")[0] for path in folder.glob("checkpoint/*.safetensors")}

        def cut():
            self.assertNotEqual(train(env={"ANTIPHON_FAULT": "kill rank=2 at=step step=50"}).returncode, 0)
            self.assertEqual((ranks(here), ranks(there)), ({"0", "1"}, {"2", "3"}))

        cut()
        resumed = train("--resume")
        self.assertEqual(self.model_hash(resumed), self.undisturbed())
        self.assertNotIn("starting anew", resumed.stderr)
        # Another machine in the place of one that does not come back.
        cut()
        shutil.rmtree(there)
        there.mkdir()
        anew = train("--resume")
        self.assertEqual(self.model_hash(anew), self.undisturbed())
        self.assertIn("starting anew", anew.stderr)

    def test_the_guide_says_what_is_played_here(self):
        guide = (pathlib.Path(cluster.SOURCES) / "docs/guides/clusters.md").read_text()
        for option in ("btl_tcp_if_include eth0", "oob_tcp_if_include eth0", "btl_tcp_port_min_v4 20000",
                       "btl_tcp_port_range_v4 100", f"oob_tcp_dynamic_ipv4_ports {DAEMON_PORTS}", MPI_PORTS):
            self.assertIn(option, guide)
        self.assertTrue(re.search(r"hostb slots=", guide))


if __name__ == "__main__":
    cluster.main()
