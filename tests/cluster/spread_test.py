"""Features, alignments and decoding spread over processes: byte for byte what one process writes, whole or not at all.
Steps of a recipe that cannot be spread run in the first process alone.

Usage: spread_test.py SOURCE-TREE PROGRAM MPIEXEC [unittest options and cases]
"""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import LONGEST_SECONDS, OPTIONS

PROGRAM = ""
MPIEXEC = ""
# Figures about this very run.
OWN = {"report.txt", "report.json", "summary.json"}
corpus = None


def launch(processes, *arguments):
    command = [PROGRAM, *map(str, arguments), "--threads", "1"]
    if processes > 1:
        command = [MPIEXEC, *OPTIONS.split(), "-np", str(processes), *command]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)


def run(processes, *arguments):
    process = launch(processes, *arguments)
    out, err = process.communicate(timeout=LONGEST_SECONDS)
    return process.returncode, out, err


def must(processes, *arguments):
    status, out, err = run(processes, *arguments)
    if status != 0:
        raise AssertionError(f"{arguments}: status {status}\n{out}{err}")
    return out


def contents(folder):
    """Without the folder's own name, which scripts of tables hold."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in OWN:
            files[str(path.relative_to(folder))] = path.read_bytes().replace(str(folder).encode(), b"FOLDER")
    return files


class Spread(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temporary.name)
        root = cls.root
        corpus.make_corpus(root / "corpus")
        (root / "lexicon.txt").write_text("<SIL> SIL\nA a\nB b\n")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def features(self, processes, out, *more):
        return (processes, "features", self.root / "corpus", "--out", out, "--sample-rate", corpus.RATE, "--kind", "mfcc",
                "--ceps", 13, *more)

    def align(self, processes, feats, out, *more):
        return (processes, "align", "--data", feats, "--lexicon", self.root / "lexicon.txt", "--out", out, *more)

    def test_every_step_writes_the_same(self):
        root = self.root
        folders = {}
        for processes in (1, 3):
            place = root / f"by{processes}"
            place.mkdir()
            must(*self.features(processes, place / "feats", "--augmented-copies", 1))
            must(*self.align(processes, place / "feats", place / "align", "--last-stage", "sat"))
            must(*self.align(processes, place / "feats", place / "again", "--model", place / "align/model.safetensors"))
            must(1, "lm", "--text", root / "corpus/text", "--utterance-ids", "--order", 1, "--vocabulary",
                 root / "lexicon.txt", "--out", place / "lm.arpa")
            must(1, "graph", "--model", place / "align/model.safetensors", "--lexicon", root / "lexicon.txt", "--arpa",
                 place / "lm.arpa", "--out", place / "graph")
            must(processes, "decode", "--model", place / "align/model.safetensors", "--graph", place / "graph", "--nbest", 3,
                 "--tune", place / "feats", place / "decoded")
            folders[processes] = contents(place)
        self.assertEqual(sorted(folders[1]), sorted(folders[3]))
        for name, content in folders[1].items():
            if name.endswith(".checksums.json"):
                continue  # of scripts too, which name their folder
            mine, theirs = (folders[n][name].replace(f"by{n}".encode(), b"BY") for n in (1, 3))
            self.assertEqual(mine, theirs, name)
        self.assertGreater(len(folders[1]["decoded/lattices.gz"]), 100)

    def test_a_recipe_spreads_its_steps(self):
        root = self.root
        recipe = root / "recipe.toml"
        recipe.write_text(f"""
title = "features and alignments"
[vars]
exp = "{root}/recipe-1"
[[step]]
name = "feats"
command = "features"
options = {{ data = "{root}/corpus", out = "${{exp}}/feats", kind = "mfcc", sample-rate = {corpus.RATE}, ceps = 13 }}
outputs = ["${{exp}}/feats/feats.scp"]
[[step]]
name = "ali"
command = "align"
options = {{ data = "${{exp}}/feats", lexicon = "{root}/lexicon.txt", out = "${{exp}}/ali", last-stage = "mono" }}
outputs = ["${{exp}}/ali/pdf.scp"]
""")
        for processes in (1, 2):
            must(processes, "run", recipe, "--set", f"exp={root}/recipe-{processes}")
        self.assertEqual((root / "recipe-1/ali/pdf.ark").read_bytes(), (root / "recipe-2/ali/pdf.ark").read_bytes())

    def features_step(self, name):
        return f"""
[[step]]
name = "{name}"
command = "features"
options = {{ data = "{self.root}/corpus", out = "${{exp}}/{name}", kind = "mfcc", sample-rate = {corpus.RATE}, ceps = 13 }}
outputs = ["${{exp}}/{name}/feats.scp"]
"""

    def test_a_training_of_fewer_workers_than_processes_is_left_to_the_first(self):
        root = self.root
        recipe = root / "training.toml"
        text = f"""
title = "trainings"
[vars]
exp = "{root}/training-1"
{self.features_step("feats")}
[[step]]
name = "ali"
command = "align"
options = {{ data = "${{exp}}/feats", lexicon = "{root}/lexicon.txt", out = "${{exp}}/ali", last-stage = "mono" }}
outputs = ["${{exp}}/ali/pdf.scp"]
[[step]]
name = "store"
command = "store"
outputs = ["${{exp}}/store/store.json"]
[step.options]
features = "${{exp}}/feats/feats.scp"
utt2spk = "${{exp}}/feats/utt2spk"
alignment = "${{exp}}/ali/pdf.scp"
out = "${{exp}}/store"
"""
        for name, parallel in (("one", ""), ("two", 'parallel = { method = "ssgd", workers = 2 }')):
            text += f"""
[[step]]
name = "{name}"
command = "train"
outputs = ["${{exp}}/{name}/model.safetensors"]
[step.options]
store = "${{exp}}/store"
front-end = "${{exp}}/feats/front_end.toml"
out = "${{exp}}/{name}"
data.minibatch = 64
schedule.epochs = 1
network.layer = [{{ type = "affine", dim = 16 }}, {{ type = "relu" }}, {{ type = "affine" }}]
{parallel}
"""
        recipe.write_text(text)
        hashes = {}
        for processes in (1, 2):
            out = must(processes, "run", recipe, "--json", "--set", f"exp={root}/training-{processes}")
            results = {step["name"]: step["result"] for step in json.loads(out)["steps"]}
            hashes[processes] = [results[name]["model_hash"] for name in ("one", "two")]
        self.assertEqual(hashes[1], hashes[2])
        # Of several processes each keeps a log.
        self.assertFalse((root / "training-2/one/logs").exists())
        self.assertTrue((root / "training-2/two/logs/process-1.log").exists())

    def test_a_recipe_within_a_recipe_is_left_to_the_first(self):
        root = self.root
        for name, steps in (("inner", self.features_step("feats")), ("outer", f"""
[[step]]
name = "inner"
command = "run"
options = {{ recipe = "{root}/inner.toml", exp = "${{exp}}/inner" }}
outputs = ["${{exp}}/inner/feats/feats.scp"]
{self.features_step("feats")}""")):
            (root / f"{name}.toml").write_text(f'title = "{name}"\n[vars]\nexp = "{root}/{name}"\n{steps}')
        must(2, "run", root / "outer.toml")
        inner, outer = (root / "outer" / place / "feats.ark" for place in ("inner/feats", "feats"))
        self.assertGreater(outer.stat().st_size, 1000)
        self.assertEqual(inner.read_bytes(), outer.read_bytes())

    def test_an_error_of_one_process_is_that_of_all(self):
        broken = self.root / "broken"
        corpus.make_corpus(broken)
        (broken / "s1-u05.wav").write_bytes(b"not audio at all\n")
        status, _, err = run(3, "features", broken, "--out", self.root / "refused", "--sample-rate", corpus.RATE)
        self.assertNotEqual(status, 0)
        self.assertIn("s1-u05", err)
        self.assertIn("cannot be read as audio", err)
        self.assertFalse((self.root / "refused/feats.scp").exists())
        self.assertFalse((self.root / "refused/feats.ark").exists())

    def test_a_killed_process_leaves_no_archive(self):
        out = self.root / "killed"
        process = launch(*self.features(3, out, "--augmented-copies", 400))
        victim = None
        for _ in range(400):
            time.sleep(0.05)
            children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
            workers = children.stdout.split()
            if len(workers) == 3 and out.exists():
                victim = int(workers[1])
                break
        self.assertIsNotNone(victim, "no processes to kill")
        time.sleep(0.5)
        subprocess.run(["kill", f"-{int(signal.SIGKILL)}", str(victim)], check=True)
        _, err = process.communicate(timeout=LONGEST_SECONDS)
        self.assertNotEqual(process.returncode, 0)
        self.assertTrue(err)
        self.assertFalse((out / "feats.scp").exists())
        self.assertFalse((out / "feats.ark").exists())


if __name__ == "__main__":
    PROGRAM, MPIEXEC = sys.argv[2], sys.argv[3]
    sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "tests/program"))
    import small_system as corpus  # pylint: disable=import-error
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
