"""antiphon train with side tasks, from outside: requests that mean nothing are refused, and the log says what is
learnt from.

Usage: train_side_test.py SOURCE-TREE PROGRAM
"""

import sys
import unittest

import small_system as system
from small_system import must, run


class SideTasks(system.SystemTest):
    def train(self, *more, store="store"):
        root = self.root
        return run("train", "--config", root / "net.toml", "--store", root / store, "--out", root / "out", "--set",
                   "data.minibatch=64", "--set", "schedule.epochs=1", *more)

    def assert_refused(self, result, *expected, status=2):
        self.assertEqual(result.returncode, status, result.stderr)
        for text in expected:
            self.assertIn(text, result.stderr)

    def labels(self, lines):
        path = self.root / "labels"
        path.write_text("".join(line + "\n" for line in lines))
        return "--side.task", "labels", "--side.labels", path

    def test_keys_of_no_task_are_refused(self):
        self.assert_refused(self.train("--side.labels", "labels"), "side.labels", "without side.task")
        self.assert_refused(self.train("--side.adversarial"), "side.adversarial", "without side.task")
        self.assert_refused(self.train("--side.task", "domain"), "side.store, which is missing")
        self.assert_refused(self.train("--side.task", "domain", "--side.store", self.root / "store"),
                            "the training speech itself")

    def test_few_labels_are_told_and_so_is_that_there_is_no_fresh_classifier(self):
        result = self.train(*self.labels(["s0-u00 loud", "s1-u01 quiet"]))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("2 of 24 utterances have a label, of 2 kinds", result.stderr)
        self.assertIn("warning side task: 22 utterances have no label", result.stderr)
        self.assertIn("side task: no fresh classifier, as 0 of 2 kinds of speech", result.stdout)
        result = self.train("--side.task", "speaker")
        self.assertIn("24 of 24 utterances have a label, of 4 kinds", result.stderr)
        self.assertNotIn("no label", result.stderr)

    def test_a_side_task_that_explodes_is_named(self):
        result = self.train("--side.task", "speaker", "--side.weight", 1000, "--side.adversarial",
                            "--side.most", 1000, "--side.gamma", 0)
        self.assert_refused(result, "side.weight 1000", "side.most 1000", "schedule.learning-rate", status=1)
        result = self.train("--set", "schedule.learning-rate=1e6")
        self.assert_refused(result, "schedule.learning-rate", status=1)
        self.assertNotIn("side.", result.stderr)

    def test_the_log_says_what_is_held_out(self):
        self.assertIn("held out: 6 utterances of 1 speaker(s), by speaker", self.train().stderr)
        by_utterance = self.train("--set", "held-out.by=utterance", "--set", "held-out.fraction=0.2").stderr
        self.assertRegex(by_utterance, r"held out: \d+ utterances of \d speaker\(s\), by utterance")
        self.assertNotIn("one speaker only", by_utterance)
        root = self.root
        alone = root / "alone"
        alone.mkdir()
        (alone / "utt2spk").write_text("".join(
            line.split()[0] + " anna\n" for line in (root / "corpus/utt2spk").read_text().splitlines()))
        must("store", "--features", root / "feats/feats.scp", "--utt2spk", alone / "utt2spk", "--alignment",
             root / "align/pdf.scp", "--out", alone / "store")
        self.assertRegex(self.train(store="alone/store").stderr, r"held out: \d+ utterances \(one speaker only!\)")
        self.assert_refused(self.train("--side.task", "speaker", store="alone/store"), "nothing to tell apart",
                            status=1)


if __name__ == "__main__":
    system.PROGRAM = sys.argv[2]
    unittest.main(argv=sys.argv[:1])
