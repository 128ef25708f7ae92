"""`antiphon gmm-bmmi` as a program: from mixtures over their lattices to mixtures that decode and align take.

Usage: gmm_bmmi_test.py SOURCE-TREE PROGRAM [unittest options and cases]
"""

import json
import shutil
import sys
import unittest

import small_system
from small_system import must, run


class GmmBmmiTest(small_system.SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        root = cls.root
        must("align", "--data", root / "gmm", "--lexicon", root / "lexicon.txt", "--out", root / "sat", "--last-stage",
             "sat", "--min-fmllr-frames", 50)
        # Both words may follow each other; the lattices' beam keeps what is far less probable.
        must("graph", "--model", root / "sat/model.safetensors", "--lexicon", root / "lexicon.txt", "--grammar",
             root / "grammar.txt", "--out", root / "sat-graph")
        for name, graph in (("align", "graph"), ("sat", "sat-graph")):
            cls.lattices = json.loads(must("lattices", "--json", "--model", root / f"{name}/model.safetensors",
                                           "--graph", root / graph, "--data", root / "gmm", "--text",
                                           root / "corpus/text", "--beam", 200, "--lattice-beam", 100,
                                           root / f"{name}-lattices").stdout)

    def train(self, name, out, *more, lattices=None):
        return run("gmm-bmmi", "--json", "--model", self.root / name / "model.safetensors", "--data",
                   self.root / "gmm", "--lattices", lattices or self.root / f"{name}-lattices", self.root / out,
                   "--acoustic-scale", 0.02, *more)

    def test_lattices_of_mixtures_hold_competitors(self):
        self.assertEqual(self.lattices["lattices"], 24)
        self.assertGreater(self.lattices["arcs"], 24 * 5)
        self.assertAlmostEqual(self.lattices["seconds"], self.lattices["frames"] / 100)

    def test_criterion_rises_and_the_new_model_recognises(self):
        for name, graph in (("align", "graph"), ("sat", "sat-graph")):
            result = self.train(name, f"{name}-bmmi", "--tau", 50)
            self.assertEqual(result.returncode, 0, result.stderr)
            report = json.loads(result.stdout)
            self.assertEqual(report, json.loads((self.root / f"{name}-bmmi/report.json").read_text()))
            self.assertEqual((report["utterances"], report["without_reference"]), (24, 0))
            criteria = [iteration["criterion"] for iteration in report["iterations"]]
            self.assertEqual(len(criteria), 4)
            self.assertEqual(criteria, sorted(criteria), name)
            self.assertLess(criteria[0], criteria[-1])
            model = self.root / f"{name}-bmmi/model.safetensors"
            must("decode", "--model", model, "--graph", self.root / graph, "--data", self.root / "gmm", "--out",
                 self.root / f"{name}-decoded")
            summary = json.loads((self.root / f"{name}-decoded/summary.json").read_text())
            self.assertLess(summary["score"]["error_rate"], 0.05, name)
            must("align", "--model", model, "--data", self.root / "gmm", "--lexicon", self.root / "lexicon.txt",
                 "--out", self.root / f"{name}-aligned")

    def test_threads_change_no_bit(self):
        for threads in (1, 3):
            self.assertEqual(self.train("align", f"threads-{threads}", "--threads", threads).returncode, 0)
        one, three = ((self.root / f"threads-{n}/model.safetensors").read_bytes() for n in (1, 3))
        self.assertEqual(one, three)

    def test_what_does_not_fit_is_named(self):
        other = self.train("sat", "other", lattices=self.root / "align-lattices")
        self.assertEqual(other.returncode, 1)
        self.assertIn("other phones, topology or tree", other.stderr)
        network = run("gmm-bmmi", "--model", self.root / "net/model.safetensors", "--data", self.root / "gmm",
                      "--lattices", self.root / "align-lattices", self.root / "none")
        self.assertEqual(network.returncode, 2)
        self.assertIn("not a model of Gaussian mixtures", network.stderr)
        alone = self.root / "alone"
        alone.mkdir()
        shutil.copy(self.root / "sat/model.safetensors", alone)
        without = run("gmm-bmmi", "--model", alone / "model.safetensors", "--data", self.root / "gmm", "--lattices",
                      self.root / "sat-lattices", self.root / "none")
        self.assertEqual(without.returncode, 2)
        self.assertIn("--speaker-transforms", without.stderr)
        for data in ("--store", self.root / "store"), ():
            wrong = run("lattices", "--model", self.root / "align/model.safetensors", "--graph", self.root / "graph",
                        "--text", self.root / "corpus/text", self.root / "none", *data)
            self.assertEqual(wrong.returncode, 2)
            self.assertIn("--data", wrong.stderr)

    def test_utterances_without_features_are_left_out_by_name(self):
        fewer = self.root / "fewer"
        shutil.copytree(self.root / "gmm", fewer)
        lines = (self.root / "gmm/feats.scp").read_text().splitlines(keepends=True)
        (fewer / "feats.scp").write_text("".join(lines[1:]))
        result = run("gmm-bmmi", "--json", "--model", self.root / "align/model.safetensors", "--data", fewer,
                     "--lattices", self.root / "align-lattices", self.root / "fewer-bmmi")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["without_features"], 1)
        self.assertIn(lines[0].split()[0], result.stderr)


if __name__ == "__main__":
    small_system.PROGRAM = sys.argv[2]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
