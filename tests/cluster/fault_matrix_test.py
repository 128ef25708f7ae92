"""What becomes of `antiphon train` over processes when one of them is killed, stopped, slowed down or sends damage.

Usage: fault_matrix_test.py SOURCE-TREE PROGRAM MPIEXEC [unittest options and cases]

Processes harm themselves at named moments (ANTIPHON_FAULT, src/comm/fault_injection.h), so that nothing here waits for
time to pass. The cases of Survival need an Open MPI 5, see cluster_test.py.
"""

import json
import unittest

import cluster
from cluster import OPTIONS, Cluster

WORKERS = 3  # one per process: two parameter servers of which rank 0 is the first, and a slave
RANKS = {"rank 0": 0, "server": 1, "slave": 2}
MOMENTS = {"start": "at=start", "middle": "at=step step=25", "saving": "at=saving step=20",
           "checkpoint": "at=checkpoint step=20", "telling": "at=telling", "end": "at=end"}
METHODS = {
    "ssgd": {},
    "asgd": {"options": "servers = 2"},
    "ssgd divided": {"method": "ssgd", "options": 'divide = "gradients"'},
    "asgd with a server of its own": {"method": "asgd",
                                      "options": "servers = 1\ndedicated-servers = true\noverlap = true"},
    "averaging": {"options": "sync-period = 4"},
    "bmuf": {"options": "sync-period = 4"},
    "easgd": {"options": "sync-period = 4"},
    "asynchronous easgd": {"method": "easgd", "options": "sync-period = 4\nasynchronous = true"},
    "asgd-groups": {"options": "stripes = 1"},
    "natural-gradient-averaging": {"options": "sync-period = 4"},
    "admm": {"options": "sync-period = 4"},
    "eamsgd": {"options": "sync-period = 4\n[optimizer]\nmomentum = 0.5"},
    "host-master": {},
    "pipeline": {},
    "model-parallel": {},
    "hessian-free": {"options": "gradient-minibatches = 11\ncg-iterations = 10"},
}
# Their models depend on the order in which workers come.
ASYNCHRONOUS = {"asgd", "asgd with a server of its own", "asynchronous easgd", "asgd-groups", "host-master"}


class FaultCase(Cluster):
    def arguments(self, name, method, deadline=60):
        settings = {"method": method, **METHODS[method]}
        return self.command(name, "--json", workers=WORKERS, epochs=2, rate=0.1, checkpoint_steps=10, deadline=deadline,
                            **settings)

    def fault(self, name, method, action, rank, moment):
        """The environment that lets it happen, once."""
        # Where workers take what they are fast enough for, a slow one may never come to its step 25: early on instead,
        # before the first checkpoint.
        at = "at=step step=2" if moment == "middle" and method in ASYNCHRONOUS else MOMENTS[moment]
        return {"ANTIPHON_FAULT": f"{action} rank={RANKS[rank]} {at} once={self.folder / name}.happened"}

    def fault_while_others(self, waiting, name, method, action, rank, moment):
        """As `fault`. A slow worker may not come to its step 2 either, so that the others are `waiting` meanwhile."""
        faults = [FaultCase.fault(self, name, method, action, rank, moment)["ANTIPHON_FAULT"]]
        if moment == "middle" and method in ASYNCHRONOUS:
            faults += [f"{waiting} rank={other} at=step until={self.folder / name}.happened"
                       for other in RANKS.values() if other != RANKS[rank]]
        return {"ANTIPHON_FAULT": ";".join(faults)}

    def check_happened(self, name):
        self.assertTrue((self.folder / f"{name}.happened").exists(), "the fault was never injected")

    def result(self, process):
        self.assertEqual(process.returncode, 0, process.stderr)
        lines = [line for line in process.stdout.splitlines() if line.startswith("{")]
        self.assertEqual(len(lines), 1, process.stdout)
        return json.loads(lines[0])

    def without_faults(self, method):
        """The result of a run without faults, on threads."""
        key = "reference-" + method
        if key not in self.faultless:
            self.faultless[key] = self.result(self.run_command(self.arguments(key, method)))
        return self.faultless[key]

    faultless = {}


class Matrix(FaultCase):
    """With restarts, every fault ends in a whole model; of a synchronous method in the same one to the bit."""

    # Each method meets each action, each action each rank and each moment, each rank each moment.
    CASES = [
        ("ssgd", "kill", "rank 0", "start"),
        ("asgd", "kill", "server", "middle"),
        ("averaging", "kill", "slave", "checkpoint"),
        ("bmuf", "kill", "rank 0", "end"),
        ("easgd", "kill", "slave", "start"),
        ("ssgd", "stop", "slave", "middle"),
        ("asgd", "stop", "rank 0", "checkpoint"),
        ("averaging", "stop", "server", "end"),
        ("bmuf", "stop", "server", "start"),
        ("easgd", "stop", "rank 0", "middle"),
        ("ssgd", "slow", "server", "checkpoint"),
        ("asgd", "slow", "slave", "end"),
        ("averaging", "slow", "rank 0", "middle"),
        ("bmuf", "slow", "slave", "start"),
        ("easgd", "slow", "server", "end"),
        ("ssgd", "corrupt", "slave", "end"),
        ("asgd", "corrupt", "slave", "middle"),
        ("averaging", "corrupt", "rank 0", "start"),
        ("bmuf", "corrupt", "server", "middle"),
        ("easgd", "corrupt", "server", "checkpoint"),
    ]

    def fault(self, *case):
        """Ranks serve others while they wait."""
        return self.fault_while_others("hold step=1 seconds=0", *case)

    def test_covering_selection(self):
        for method, action, rank, moment in self.CASES:
            with self.subTest(method=method, action=action, rank=rank, moment=moment):
                self.check(method, action, rank, moment)

    def test_killed_before_its_part_of_a_checkpoint_is_written(self):
        """The others' parts may be there: the checkpoint before counts."""
        for method, rank in (("ssgd", "rank 0"), ("ssgd", "slave"), ("bmuf", "server")):
            with self.subTest(method=method, rank=rank):
                self.check(method, "kill", rank, "saving")

    def test_divided_state_and_a_server_of_its_own(self):
        """The last rank is that server, and takes no steps."""
        for method, rank, moment in (("ssgd divided", "slave", "middle"), ("ssgd divided", "server", "saving"),
                                     ("asgd with a server of its own", "slave", "saving"),
                                     ("asgd with a server of its own", "server", "middle")):
            with self.subTest(method=method, rank=rank, moment=moment):
                self.check(method, "kill", rank, moment)

    def test_parts_of_a_model_masters_and_elastic_workers_with_momentum(self):
        """The first, a middle and the last stage of a pipeline; a stripe of every layer; who leads or follows."""
        for method, action, rank, moment in (
                ("pipeline", "kill", "rank 0", "middle"), ("pipeline", "stop", "server", "middle"),
                ("pipeline", "corrupt", "slave", "middle"), ("model-parallel", "kill", "server", "middle"),
                ("model-parallel", "corrupt", "rank 0", "checkpoint"), ("hessian-free", "kill", "rank 0", "saving"),
                ("hessian-free", "kill", "slave", "middle"), ("host-master", "kill", "rank 0", "middle"),
                ("host-master", "corrupt", "slave", "middle"), ("eamsgd", "kill", "server", "middle")):
            with self.subTest(method=method, action=action, rank=rank, moment=moment):
                self.check(method, action, rank, moment)

    def test_a_run_that_is_given_up_says_who_where_and_how_to_go_on(self):
        name = "given-up"
        launch = f"{cluster.MPIEXEC} -np {WORKERS} {OPTIONS}"
        process = self.run_command([*self.arguments(name, "pipeline"), "--launch", launch],
                                   env=self.fault(name, "pipeline", "kill", "slave", "middle"))
        self.assertEqual(process.returncode, 1, process.stderr)
        self.assertRegex(process.stderr, f"process rank {RANKS['slave']} with PID [0-9]+ on node .* exited on signal 9")
        self.assertRegex(process.stderr, f"To go on from the last checkpoint: antiphon train --config .*{name}.* --resume")
        result = self.result(self.run_command([*self.arguments(name, "pipeline"), "--resume"]))
        self.assertEqual(result["model_hash"], self.without_faults("pipeline")["model_hash"])

    def test_the_selection_covers_all_pairs(self):
        for i, j in ((0, 1), (1, 2), (1, 3), (2, 3)):
            kinds = [sorted({case[k] for case in self.CASES}) for k in (i, j)]
            pairs = {(case[i], case[j]) for case in self.CASES}
            self.assertEqual(len(pairs), len(kinds[0]) * len(kinds[1]), (i, j))

    def check(self, method, action, rank, moment):
        name = "-".join([method, action, rank, moment]).replace(" ", "")
        launch = f"{cluster.MPIEXEC} -np {WORKERS} {OPTIONS}"
        command = self.arguments(name, method, deadline=10 if action == "stop" else 60)
        process = self.run_command([*command, "--restarts", "1", "--launch", launch],
                                   env=self.fault(name, method, action, rank, moment))
        result = self.result(process)
        self.check_happened(name)
        self.assertEqual(result["epochs"], 2)
        if method not in ASYNCHRONOUS:
            self.assertEqual(result["model_hash"], self.without_faults(method)["model_hash"])
        restarts = [event["what"] for event in self.events(name)]
        self.assertEqual(restarts, [] if action == "slow" else ["restart"], process.stderr)
        if action != "slow":
            self.assertIn("and was started again", (self.folder / name / "report.html").read_text())
        if action == "corrupt":
            self.assertRegex(process.stderr, f"from process {RANKS[rank]} .* arrived damaged")
        if action == "stop":
            # Whoever waited first tells: for the stopped rank, or for another one that waits.
            self.assertRegex(process.stderr, "rank [0-9] of 3, receiving from .*, step [0-9]+: no message within 10 s")
        if action == "kill":
            self.assertRegex(process.stderr, f"process rank {RANKS[rank]} with PID [0-9]+ on node .* exited on signal 9")
        # No half-written checkpoint is left behind.
        leftovers = [path.name for path in (self.folder / name / "checkpoint").rglob("*")
                     if not path.name.endswith(".safetensors")]
        self.assertEqual(leftovers, [])


class Survival(FaultCase):
    """Open MPI 5: a lost rank ends no run of a method that can do without it."""

    def fault(self, *case):
        """Ranks that may go on without lost ones serve between their steps only: they take their time with each."""
        return self.fault_while_others("drag", *case)

    def name_of(self, method, rank, moment):
        return "-".join(["lost", method, rank, moment]).replace(" ", "")

    def check(self, method, rank, moment, survives):
        name = self.name_of(method, rank, moment)
        (self.folder / f"{name}.happened").unlink(missing_ok=True)
        process = self.mpirun_5(WORKERS, *self.arguments(name, method), env=self.fault(name, method, "kill", rank, moment))
        output, errors = process.communicate(timeout=cluster.LONGEST_SECONDS)
        # mpirun itself tells of the dead process by its exit status.
        lines = [line for line in output.splitlines() if line.startswith("{")]
        self.assertEqual(len(lines), 1, errors)
        self.check_happened(name)
        result = json.loads(lines[0])
        self.assertEqual(result["epochs"], 2)
        events = self.events(name)
        if not survives:
            self.assertEqual([event["what"] for event in events], ["restart"], errors)
            self.assertEqual(result["lost_workers"], 0)
            self.assertRegex(errors, "(?s)the 2 that are left carry all workers on, from the last checkpoint.*"
                                     f"rank {RANKS[rank]}( on '[^']+')? is lost")
            return result
        self.assertEqual([event["what"] for event in events], ["loss"], errors)
        self.assertEqual(events[0]["workers_lost"], str(RANKS[rank]))
        self.assertEqual(events[0]["workers_left"], 2)
        self.assertEqual(result["lost_workers"], 1)
        self.assertEqual(result["minibatches_given_back"], events[0]["given_back"])
        self.assertIn(f"worker {RANKS[rank]} was lost", errors)
        self.assertIn(f"worker {RANKS[rank]} was lost", (self.folder / name / "report.html").read_text())
        self.assertGreater(result["held_out_accuracy"], self.without_faults(method)["held_out_accuracy"] - 0.05)
        return result

    def test_elastic_workers_with_momentum_and_devices_of_a_host(self):
        self.check("eamsgd", "slave", "middle", survives=True)
        self.check("eamsgd", "rank 0", "checkpoint", survives=True)
        self.check("host-master", "slave", "middle", survives=True)
        self.check("host-master", "rank 0", "middle", survives=False)

    def test_whoever_holds_a_part_of_the_model_is_needed(self):
        for method, rank in (("pipeline", "server"), ("pipeline", "rank 0"), ("model-parallel", "slave"),
                             ("hessian-free", "slave"), ("hessian-free", "rank 0")):
            with self.subTest(method=method, rank=rank):
                result = self.check(method, rank, "middle", survives=False)
                self.assertEqual(result["model_hash"], self.without_faults(method)["model_hash"])

    def test_a_lost_slave_is_gone_on_without(self):
        for method in ("ssgd", "asgd", "averaging", "bmuf", "easgd"):
            for moment in ("middle", "checkpoint", "end"):
                with self.subTest(method=method, moment=moment):
                    result = self.check(method, "slave", moment, survives=True)
                    if moment == "middle":
                        self.assertGreater(result["minibatches_given_back"], 0)

    def test_the_others_take_over_from_rank_0(self):
        """The next rank holds the folder, writes what rank 0 wrote, and tells the result."""
        for method in ("ssgd", "averaging", "bmuf", "easgd"):
            for moment in ("middle", "saving", "checkpoint", "telling", "end"):
                with self.subTest(method=method, moment=moment):
                    self.check(method, "rank 0", moment, survives=True)
                    records = self.records(self.name_of(method, "rank 0", moment))
                    kinds = [record["kind"] for record in records]
                    self.assertEqual((kinds[0], kinds[-1]), ("start", "finish"))
                    self.assertEqual({record["epoch"] for record in records if record["kind"] == "epoch"}, {1, 2})
                    # What rank 0 wrote last may be told again: the others do not know whether it did.
                    steps = [record["step"] for record in records if record["kind"] == "step"]
                    self.assertEqual(steps, sorted(steps))
                    self.assertLessEqual(len(steps) - len(set(steps)), 1)

    def test_a_step_of_ssgd_that_loses_a_worker_gives_back_its_minibatch_alone(self):
        result = self.check("ssgd", "slave", "middle", survives=True)
        self.assertEqual(result["minibatches_given_back"], 1)
        # Others have learned that; what the lost one had learned counts.
        self.assertEqual(result["frames"], self.without_faults("ssgd")["frames"])
        self.assertLessEqual(self.check("ssgd", "rank 0", "middle", survives=True)["minibatches_given_back"], 1)

    def test_a_lost_server_and_what_comes_before_the_first_step_cost_the_last_steps(self):
        self.check("asgd", "server", "middle", survives=False)
        self.check("asgd", "rank 0", "middle", survives=False)
        self.check("averaging", "rank 0", "start", survives=False)
        self.check("bmuf", "slave", "start", survives=False)

    def test_methods_that_keep_something_on_each_worker_go_on_from_the_last_checkpoint(self):
        for method in ("ssgd divided", "asynchronous easgd", "asgd-groups", "natural-gradient-averaging", "admm"):
            with self.subTest(method=method):
                result = self.check(method, "slave", "middle", survives=False)
                if method in ASYNCHRONOUS:
                    self.assertGreater(result["held_out_accuracy"],
                                       self.without_faults(method)["held_out_accuracy"] - 0.05)
                else:
                    self.assertEqual(result["model_hash"], self.without_faults(method)["model_hash"])


if __name__ == "__main__":
    cluster.main()
