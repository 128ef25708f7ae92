"""The program as a person or a script meets it: exit status, what goes where, help, errors.

Usage: program_test.py SOURCE-TREE PROGRAM
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""


def run(*arguments, **options):
    return subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          **options)


def commands():
    return [line[2:20].strip() for line in run("--help").stdout.splitlines() if line.startswith("  ")]


class Program(unittest.TestCase):
    def test_help_goes_to_standard_output_with_status_0(self):
        for arguments in (["--help"], ["help"], ["--version"], ["bench"], ["help", "doctor"]):
            result = run(*arguments)
            self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
            self.assertTrue(result.stdout, arguments)

    def test_new_commands_get_a_heading(self):
        last = run("--help").stdout.split("Machine and files:\n")[1].split("\n\n")[0]
        self.assertEqual({line.split()[0] for line in last.splitlines()}, {"doctor", "info", "bench"},
                         "name the others in Headings() of apps/antiphon/command_help.cc")

    def test_a_mistake_in_any_step_is_told_before_the_first_one_runs(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "text").write_text("u1 one two\nu2 two one\n")
            (folder / "r.toml").write_text(
                'title = "two steps"\n[vars]\nexp = "exp"\n'
                '[[step]]\nname = "model"\ncommand = "lm"\noptions = { text = "text", utterance-ids = true, order = 1, '
                'out = "${exp}/lm.arpa" }\ninputs = ["text"]\noutputs = ["${exp}/lm.arpa"]\n'
                '[[step]]\nname = "small"\ncommand = "lm"\noptions = { arpa = "${exp}/lm.arpa", prune = 1e-8, '
                'out = "${exp}/small.arpa" }\ninputs = ["${exp}/lm.arpa"]\noutputs = ["${exp}/small.arpa"]\n')
            wrong = run("run", "r.toml", "--set", "small.prun=0.5", cwd=folder)
            self.assertEqual(wrong.returncode, 2, wrong.stderr)
            self.assertIn("step 'small'", wrong.stderr)
            self.assertIn("prune", wrong.stderr)
            self.assertFalse((folder / "exp/lm.arpa").exists())
            # Nothing of it is remembered.
            right = run("run", "r.toml", cwd=folder)
            self.assertEqual(right.returncode, 0, right.stderr)

    def test_every_command_has_help_with_an_example(self):
        self.assertGreater(len(commands()), 3)
        for command in commands():
            result = run(*command.split(), "--help")
            self.assertEqual(result.returncode, 0, command)
            self.assertIn("antiphon " + command, result.stdout.split("Example:")[1])
            self.assertLessEqual(max(map(len, result.stdout.splitlines())), 240, command)

    def test_wrong_usage_gives_status_2_and_says_what_is_known(self):
        for arguments, expected in (
            ([], "a command is missing"),
            (["docter"], "did you mean 'doctor'?"),
            (["doctor", "--fodler", "x"], "did you mean '--folder'?"),
            (["doctor", "--threads", "-1"], "must be 0"),
            (["doctor", "--threads"], "--threads"),
            (["doctor", "--set", "fodler=x"], "did you mean 'folder'?"),
            (["info"], "FILE (or --file) is missing"),
            (["doctor", "--device", "gpu"], "unknown device 'gpu' (did you mean 'cpu'?); known: cpu"),
            # No build has kernels for it yet: refused with the reason, never computed elsewhere in silence.
            (["bench", "train", "--set", "device=cuda"], "device 'cuda' cannot be used: "),
            (["doctor", "--device", "cpu,cuda:1"], "device 'cuda:1' cannot be used: "),
        ):
            result = run(*arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
            self.assertIn(expected, result.stderr)
            self.assertTrue(result.stderr.startswith("antiphon: error: "), result.stderr)

    def test_methods_are_listed_without_a_model(self):
        for command, method in (("compress", "svd"), ("adapt", "kld")):
            result = run(command, "--method", "list")
            self.assertEqual((result.returncode, result.stderr), (0, ""), command)
            self.assertIn(method, result.stdout.splitlines())
            self.assertIn("MODEL (or --model) is missing", run(command, "--method", method).stderr)

    def test_failure_gives_status_1_and_a_chain_down_to_the_cause(self):
        result = run("info", "/nonexistent/file")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("antiphon info:\n  '/nonexistent/file'", result.stderr)

    def test_a_configuration_error_names_file_and_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "c.toml"
            path.write_text("folder = '.'\nfodler = '.'\n")
            result = run("doctor", "--config", str(path))
            self.assertEqual(result.returncode, 2)
            self.assertIn("c.toml:2", result.stderr)
            path.write_text("folder = \n")
            self.assertIn("c.toml:1", run("doctor", "--config", str(path)).stderr)
            self.assertEqual(run("doctor", "--config", folder + "/none.toml").returncode, 1)

    def test_simulation_says_that_it_is_one_and_refuses_what_cannot_be(self):
        result = run("simulate", "--methods", "bmuf,ssgd", "--workers", "1,4", "--layers", "40,2x64,100", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        simulated = json.loads(result.stdout)
        self.assertTrue(simulated["simulated"])
        self.assertEqual([(r["method"], r["workers"]) for r in simulated["runs"]],
                         [("bmuf", 1), ("bmuf", 4), ("ssgd", 1), ("ssgd", 4)])
        result = run("plan", "--layers", "40,2x64,100", "--hours", "10", "--devices", "4", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("method", json.loads(result.stdout)["best"])
        for arguments, expected in (
            (["simulate", "--methods", "bmfu"], "did you mean 'bmuf'?"),
            (["simulate", "--methods", "pipeline", "--workers", "9", "--layers", "40,64,100", "--set", "plan.stripes=1"],
             "cannot be made of 2 layers"),
            (["simulate", "--set", "cluster.host.gflop=1"], "did you mean 'gflops'?"),
            (["plan", "--hours", "0.0001"], "less than one minibatch"),
        ):
            result = run(*arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
            self.assertIn(expected, result.stderr)

    def test_json_is_all_that_goes_to_standard_output(self):
        result = run("doctor", "--json")
        self.assertEqual(result.returncode, 0)
        self.assertIn("cpu", json.loads(result.stdout))

    def test_a_pinned_blas_is_warned_of(self):
        result = run("doctor", "--json", env={**os.environ, "OPENBLAS_CORETYPE": "Haswell"})
        self.assertTrue(any("OPENBLAS_CORETYPE" in w for w in json.loads(result.stdout)["warnings"]))

    def test_the_library_of_products_is_shown_and_a_limit_warned_of(self):
        limited = {**os.environ, "ANTIPHON_ISA": "sse4", "ANTIPHON_PRODUCTS": "packed"}
        result = json.loads(run("doctor", "--json", env=limited).stdout)
        self.assertEqual(result["matrix products"], "packed, sse4")
        for name in ("ANTIPHON_ISA", "ANTIPHON_PRODUCTS"):
            self.assertTrue(any(name in w for w in result["warnings"]), name)
        result = run("doctor", env={**os.environ, "ANTIPHON_ISA": "sse5"})
        self.assertEqual(result.returncode, 2)
        self.assertIn("did you mean 'sse4'?", result.stderr)

    def test_output_that_cannot_be_written_is_a_failure(self):
        for command in ("doctor", "--help"):
            with open("/dev/full", "w") as full:
                result = subprocess.run([PROGRAM, command], stdin=subprocess.DEVNULL, stdout=full,
                                        stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual(result.returncode, 1)
            self.assertIn("standard output", result.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv[2]
    unittest.main(argv=sys.argv[:1])
