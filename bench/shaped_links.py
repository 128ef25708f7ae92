#!/usr/bin/env python3
"""Runs a command under mpirun on "machines" that are network namespaces, joined by a switch with links of a chosen speed.

Each machine gets its own name, loopback and one link, shaped in both directions by tc tbf (and netem, where the kernel has
it and --delay-ms asks for it). mpirun starts its daemons there as it would over ssh, and MPI has nothing but TCP over these
links. Needs the right to make namespaces (root), iproute2 and Open MPI. Prints what the links really give (a stream between
two of the machines), then runs the command; the links' byte counts follow, so that what a method sends can be checked.

  bench/shaped_links.py --machines 2 --rate-mbit 100 -- build/release/antiphon train --config run.toml --set parallel.method=ssgd

All machines share this computer's cores: a measurement says something about links only as long as the cores suffice.
"""

import argparse
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

SUBNET = "10.77.0"
AGENT = """#!/bin/sh
# What mpirun calls instead of ssh: agent [options] MACHINE COMMAND...
while case $1 in -*) true;; *) false;; esac; do shift; done
machine=$1; shift
exec ip netns exec {prefix}-$machine unshare --uts sh -c "hostname $machine; $*"
"""


def sh(command, check=True):
    return subprocess.run(shlex.split(command), check=check, capture_output=True, text=True)


class Switch:
    """The namespaces and links; taken down at the end, whatever happened."""

    def __init__(self, machines, rate_mbit, delay_ms):
        self.prefix = f"antiphon{os.getpid()}"
        self.bridge = f"ab{os.getpid() % 100000}"
        self.names = [f"node{i}" for i in range(machines)]
        self.addresses = [f"{SUBNET}.{i + 1}" for i in range(machines)]
        self.rate_mbit = rate_mbit
        self.delay_ms = delay_ms

    def __enter__(self):
        try:
            sh(f"ip link add {self.bridge} type bridge")
            sh(f"ip addr add {SUBNET}.254/24 dev {self.bridge}")
            sh(f"ip link set {self.bridge} up")
            for i, name in enumerate(self.names):
                self.add(i, f"{self.prefix}-{name}")
        except subprocess.CalledProcessError as error:
            self.__exit__()
            sys.exit(f"shaped_links: {' '.join(error.cmd)}: {error.stderr.strip()}\n(needs root and iproute2)")
        return self

    def add(self, i, namespace):
        outer, inner = f"{self.bridge}p{i}", "eth0"
        sh(f"ip netns add {namespace}")
        sh(f"ip link add {outer} type veth peer name {inner} netns {namespace}")
        sh(f"ip link set {outer} master {self.bridge} up")
        inside = f"ip netns exec {namespace} "
        sh(inside + f"ip addr add {self.addresses[i]}/24 dev {inner}")
        sh(inside + f"ip link set {inner} up")
        sh(inside + "ip link set lo up")
        for where, device in ((inside, inner), ("", outer)):
            self.shape(where, device)

    def shape(self, where, device):
        if self.rate_mbit:
            # A burst of 1 ms, but at least the largest packet that the kernel hands over in one piece.
            burst = max(70000, int(self.rate_mbit * 1e6 / 8 * 1e-3))
            sh(where + f"tc qdisc add dev {device} root handle 1: tbf rate {self.rate_mbit}mbit burst {burst} latency 100ms")
        if self.delay_ms:
            parent = "parent 1:1" if self.rate_mbit else "root"
            sh(where + f"tc qdisc add dev {device} {parent} netem delay {self.delay_ms}ms limit 10000")

    def sent(self, i):
        path = "/sys/class/net/eth0/statistics/tx_bytes"
        return int(sh(f"ip netns exec {self.prefix}-{self.names[i]} cat {path}").stdout)

    def __exit__(self, *_):
        for i, name in enumerate(self.names):
            sh(f"ip netns del {self.prefix}-{name}", check=False)
            sh(f"ip link del {self.bridge}p{i}", check=False)
        sh(f"ip link del {self.bridge}", check=False)


STREAM = """
import socket, sys, time
if sys.argv[1] == "serve":
    server = socket.create_server((sys.argv[2], 9999))
    print("ready", flush=True)
    peer, _ = server.accept()
    size, begin = 0, None
    while data := peer.recv(1 << 20):
        begin = begin or time.monotonic()
        size += len(data)
    print(size * 8 / 1e6 / (time.monotonic() - begin), flush=True)
else:
    with socket.create_connection((sys.argv[2], 9999)) as peer:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            peer.sendall(bytes(1 << 16))
"""


def measured_rate(switch):
    def inside(i, *arguments):
        return ["ip", "netns", "exec", f"{switch.prefix}-{switch.names[i]}", sys.executable, "-c", STREAM, *arguments]

    server = subprocess.Popen(inside(1, "serve", switch.addresses[1]), stdout=subprocess.PIPE, text=True)
    server.stdout.readline()
    subprocess.run(inside(0, "send", switch.addresses[1]), check=True)
    return float(server.stdout.readline())


# How Open MPI moves messages: by its own protocol over TCP, or by UCX over TCP.
TRANSPORTS = {"ob1": ["--mca", "btl", "tcp,self", "--mca", "pml", "ob1"],
              "ucx": ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any",
                      "-x", "UCX_TLS=tcp,self", "-x", "UCX_NET_DEVICES=eth0"]}


def mpirun(switch, agent, per_machine, mpiexec, transport, command):
    hosts = ",".join(f"{name}:{per_machine}" for name in switch.names)
    return [mpiexec, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--host", hosts, "-np",
            str(len(switch.names) * per_machine), "--mca", "plm_rsh_agent", str(agent), "--mca", "plm", "rsh",
            *TRANSPORTS[transport], "--mca", "btl_tcp_if_include", f"{SUBNET}.0/24",
            "--mca", "oob_tcp_if_include", f"{SUBNET}.0/24", "-x", "OMP_WAIT_POLICY=passive", *command]


def run(command, machines=2, per_machine=1, rate_mbit=0, delay_ms=0, mpiexec="mpirun", transport="ob1", **kwargs):
    """Runs the command on machines with such links; what subprocess.run gives, and what each link carried, in bytes."""
    with Switch(machines, rate_mbit, delay_ms) as switch, tempfile.TemporaryDirectory() as scratch:
        if machines > 1:
            print(f"shaped_links: asked {rate_mbit or 'unshaped'}, a stream gets {measured_rate(switch):.1f} Mbit/s",
                  file=sys.stderr)
        agent = pathlib.Path(scratch) / "agent"
        agent.write_text(AGENT.format(prefix=switch.prefix))
        agent.chmod(0o755)
        hosts = "".join(f"{address} {name}\n" for address, name in zip(switch.addresses, switch.names))
        folders = [pathlib.Path("/etc/netns") / f"{switch.prefix}-{name}" for name in switch.names]
        for folder in folders:  # ip netns exec shows this file as /etc/hosts inside
            folder.mkdir(parents=True)
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
        before = [switch.sent(i) for i in range(machines)]
        try:
            done = subprocess.run(mpirun(switch, agent, per_machine, mpiexec, transport, command), **kwargs)
        finally:
            for folder in folders:
                (folder / "hosts").unlink()
                folder.rmdir()
        return done, [switch.sent(i) - b for i, b in enumerate(before)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--processes-per-machine", type=int, default=1)
    parser.add_argument("--rate-mbit", type=float, default=0, help="of each link, in both directions; 0: as fast as it goes")
    parser.add_argument("--delay-ms", type=float, default=0, help="added at each end of a link (needs sch_netem)")
    parser.add_argument("--mpiexec", default="mpirun")
    parser.add_argument("--transport", choices=list(TRANSPORTS), default="ob1", help="of Open MPI between the machines")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    if options.command[0] == "--":
        options.command.pop(0)
    begin = time.monotonic()
    done, sent = run(options.command, options.machines, options.processes_per_machine, options.rate_mbit, options.delay_ms,
                     options.mpiexec, options.transport)
    print(f"shaped_links: {time.monotonic() - begin:.2f} s; sent over the links, MB: "
          + " ".join(f"{s / 1e6:.2f}" for s in sent), file=sys.stderr)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
