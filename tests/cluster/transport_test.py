"""Long messages between machines go in pieces where that was measured to help, by what MPI itself says carries them.

Usage: transport_test.py SOURCE-TREE PROGRAM MPIEXEC [unittest options and cases]

The "machines" are processes with host names of their own.
"""

import os
import pathlib
import subprocess
import unittest

import cluster
from cluster import OPTIONS

UNSHARE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--uts"]
TCP = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
# The options of bench/shaped_links.py.
UCX = ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any", "-x", "UCX_TLS=tcp,self",
       "-x", "UCX_NET_DEVICES=lo"]
IN_PIECES, WHOLE = "go in pieces of 64 kB", "go whole"


class Transport(unittest.TestCase):
    def described(self, mpiexec, *options, own_names=True, env=None):
        """What `bench comm` says of how two processes talk."""
        bench = [cluster.PROGRAM, "bench", "comm", "--workers", "2", "--megabytes", "0.2", "--repeats", "1", "--codecs", "fp32"]
        if own_names:
            bench = [*UNSHARE, "sh", "-c", 'hostname node$OMPI_COMM_WORLD_RANK && exec "$@"', "sh", *bench]
        result = subprocess.run([mpiexec, *OPTIONS.split(), "-np", "2", *options, *bench], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=cluster.LONGEST_SECONDS, check=False,
                                env=dict(os.environ, OMP_WAIT_POLICY="passive", **(env or {})))
        if own_names and "unshare failed" in result.stderr:
            self.skipTest("no right to give processes host names of their own")
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.splitlines()[0]

    def test_open_mpis_own_protocol_over_tcp_takes_pieces(self):
        self.assertIn(IN_PIECES, self.described(cluster.MPIEXEC, *TCP))

    def test_so_does_open_mpi_5(self):
        folder = cluster.open_mpi_5()
        if folder is None:
            self.skipTest("no Open MPI 5 (scripts/venv installs one)")
        self.assertIn(IN_PIECES, self.described(str(folder / "bin/mpirun"), *TCP,
                                                env={"LD_LIBRARY_PATH": str(folder / "lib")}))

    def test_without_tcp_messages_go_whole(self):
        self.assertIn(WHOLE, self.described(cluster.MPIEXEC, "--mca", "pml", "ob1", "--mca", "btl", "^tcp"))

    def test_ucx_takes_its_own_rendezvous(self):
        info = subprocess.run(["ompi_info", "--parsable"], capture_output=True, text=True, check=False).stdout
        if "mca:pml:ucx:" not in info:
            self.skipTest("this Open MPI has no UCX")
        self.assertIn(WHOLE, self.described(cluster.MPIEXEC, *UCX))

    def test_within_a_machine_there_is_nothing_to_choose(self):
        described = self.described(cluster.MPIEXEC, *TCP, own_names=False)
        self.assertNotIn(IN_PIECES, described)
        self.assertNotIn(WHOLE, described)


def count_of(siblings):
    """Of the CPUs in a list of the kernel's, such as 0-1,8."""
    ends = [part.split("-") for part in siblings.strip().split(",")]
    return sum(int(last) - int(first) + 1 for first, *_, last in (end * 2 for end in ends))


class Binding(unittest.TestCase):
    """What mpirun does to processes, for which the guide advises --bind-to none."""

    def cores(self, *options):
        """Of each of two processes."""
        result = subprocess.run([cluster.MPIEXEC, "--allow-run-as-root", "-np", "2", *options, "nproc"], capture_output=True,
                                text=True, timeout=cluster.LONGEST_SECONDS, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [int(word) for word in result.stdout.split()]

    def test_two_processes_get_a_core_each_unless_they_are_not_bound(self):
        usable = os.sched_getaffinity(0)
        whole = {(pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology") / "thread_siblings_list").read_text()
                 for cpu in usable}
        if len(whole) < 2:
            self.skipTest("one core")
        self.assertEqual(self.cores("--bind-to", "none"), [len(usable)] * 2)
        for threads in self.cores():
            self.assertIn(threads, {count_of(siblings) for siblings in whole})
            self.assertLess(threads, len(usable))


if __name__ == "__main__":
    cluster.main()
