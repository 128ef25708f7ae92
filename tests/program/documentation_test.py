"""The documentation's command lines and configurations, held against the program.

Every fenced `sh` block of a page is run in a folder that holds a small recogniser under the names that the pages use.
An HTML comment before a block says what is different:

  <!-- options only: REASON -->   not run; the program checks all options (--check-options)
  <!-- command: NAME -->          (toml) the configuration file of that command
  <!-- file: recipe -->           (toml) a recipe
  <!-- not checked: REASON -->    neither

Command lines inside sentences and tables are checked for their options, and so are the examples of the help pages.

Usage: documentation_test.py SOURCE-TREE PROGRAM
"""

import os
import pathlib
import re
import shutil
import shlex
import subprocess
import sys
import unittest

import small_system
from small_system import RATE, must, run

SOURCES = pathlib.Path()
BLOCK = re.compile(r"^(?:<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```", re.M | re.S)
SPAN = re.compile(r"`(antiphon [^`]+)`")
# A sentence or a table may leave out what is needed besides.
INCOMPLETE = re.compile(r"\) is missing|is missing; --help")
ENDS = {"|", "||", "&&", ";", ">", ">>", "2>", "<", "&"}


class Example:
    def __init__(self, page, line, text, mark=""):
        self.place, self.text, self.mark = f"{page}:{line}", text, mark


def pages():
    return [page for pattern in ("*.md", "models/*.md", "docs/**/*.md") for page in sorted(SOURCES.glob(pattern))]


def blocks(kind):
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            if found["kind"] == kind:
                line = text.count("\n", 0, found.start("text")) + 1
                yield Example(page.relative_to(SOURCES), line, found["text"], found["mark"] or "")


def spans():
    for page in pages():
        text = re.sub(r"^```.*?^```", lambda m: "\n" * m.group().count("\n"), page.read_text(encoding="utf-8"),
                      flags=re.M | re.S)
        for found in SPAN.finditer(text):
            yield Example(page.relative_to(SOURCES), text.count("\n", 0, found.start()) + 1,
                          found.group(1).replace("\n", " ").replace("\\|", "|"))


def commands(text):
    """The arguments of each call of the program in a piece of shell."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while "antiphon" in words:
            words = words[words.index("antiphon") + 1:]
            end = next((i for i, word in enumerate(words) if word in ENDS), len(words))
            yield words[:end]


def is_run(example):
    return any(commands(example.text)) and not example.mark.startswith(("options only", "not checked"))


class Documentation(small_system.SystemTest):
    """Runs in a folder where everything that the pages name is there, as small as can be."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        root = cls.root
        for name in ("recipes", "docs", "bench"):
            (root / name).symlink_to(SOURCES / name)
        for name in ("network", "chain", "dnn", "lstm", "mine/network", "demo/network", "a", "b", "student"):
            shutil.copytree(root / "net", root / "exp" / name)
        for name in ("graph", "graph_unigram", "mine/graph", "demo/graph"):
            shutil.copytree(root / "graph", root / "exp" / name)
        for name in ("mine/recogniser", "demo/demo"):
            must("bundle", "--model", root / "net/model.safetensors", "--graph", root / "graph", "--out",
                 root / "exp" / f"{name}.antiphon")
        for name in ("store", "align"):
            shutil.copytree(root / name, root / "exp" / name)
        for name in ("data/test", "data/dev", "data/train", "mine", "corpus/data/train", "corpus/data/dev",
                     "corpus/data/test", "fr/train", "fr/dev"):
            shutil.copytree(root / "corpus", root / name, ignore=lambda *_: ["data", "lang"], dirs_exist_ok=True)
        for name in ("train", "test", "exp/train"):
            shutil.copytree(root / "feats", root / name)
        shutil.copytree(root / "gmm", root / "exp/gmm/train")
        speakers = re.sub(r" s0$", " anna", (root / "corpus/utt2spk").read_text(), flags=re.M)
        for name in ("mine", "data/test", "test"):
            (root / name / "utt2spk").write_text(speakers)
        for name in ("lang", "corpus/lang", "fr"):
            (root / name).mkdir(exist_ok=True)
            shutil.copy(root / "lexicon.txt", root / name / "lexicon.txt")
        for name in ("recordings", "calls"):
            (root / name).mkdir()
            for audio in sorted((root / "corpus").glob("*.wav")):
                shutil.copy(audio, root / name)
        shutil.copy(next((root / "recordings").iterdir()), root / "call.wav")
        rows = [line.split() for line in (root / "corpus/text").read_text().splitlines()]
        (root / "transcripts.tsv").write_text("file\ttext\tspeaker\n" + "".join(
            f"{row[0]}.wav\t{' '.join(row[1:])}\t{row[0][:2]}\n" for row in rows))
        (root / "profiles").mkdir()
        (root / "names.txt").write_text("A B\n")
        (root / "menu.txt").write_text("A\nB\n")
        must("lm", "--text", root / "corpus/text", "--utterance-ids", "--order", 2, "--out", root / "fr/lm.arpa")
        shutil.copy(root / "fr/lm.arpa", root / "corpus/lang/lm.arpa.gz")
        training = small_system.NETWORK + "[schedule]\nepochs = 1\n[data]\nminibatch = 64\n"
        (root / "student.toml").write_text(training)
        (root / "run.toml").write_text('store = "exp/store"\nhmm = "exp/align/model.safetensors"\nout = "exp/run"\n' +
                                       training)
        (root / "decode.toml").write_text('[decode]\ngraph = "exp/graph"\ndata = "data/dev"\n')
        (root / "cluster.toml").write_text("[cluster.host]\ngflops = 100.0\n")
        (root / "bin").mkdir()
        (root / "bin/antiphon").symlink_to(pathlib.Path(small_system.PROGRAM).resolve())

    def check(self, arguments, complete):
        """None, or why the program would not take these arguments."""
        # "…" stands for the value of an option, or for whatever else is needed.
        for instead in (["x"], []) if "…" in arguments else ([],):
            known = [re.sub(r"^(\w+)\|\w.*", r"\1", word.replace("SEED", "1")) for a in arguments
                     for word in (instead if a == "…" else [a])]
            result = subprocess.run([small_system.PROGRAM, *known, "--check-options"], stdin=subprocess.DEVNULL,
                                    capture_output=True, text=True, cwd=self.root, timeout=60)
            if result.returncode == 0 or (not complete and INCOMPLETE.search(result.stderr)):
                return None
        return f"antiphon {shlex.join(known)}: {result.stderr.strip()}"

    def test_options_of_every_block_exist(self):
        wrong, checked = [], 0
        for example in blocks("sh"):
            if example.mark.startswith("not checked"):
                continue
            for arguments in commands(example.text):
                if not arguments or arguments[0] == "doctor" or "--help" in arguments or arguments[0] == "help":
                    continue
                checked += 1
                complete = "…" not in example.text and not example.place.startswith("docs/results")
                problem = self.check(arguments, complete)
                if problem:
                    wrong.append(f"{example.place}: {problem}")
        self.assertEqual(wrong, [], "\n".join(wrong))
        self.assertGreater(checked, 100)

    def test_options_inside_sentences_exist(self):
        wrong, checked = [], 0
        for example in spans():
            for arguments in commands(example.text):
                if any(word in ("--help", "help", "--list", "--version", "COMMAND") for word in arguments):
                    continue
                if arguments[:1] == ["count"] or not any(word.startswith("--") for word in arguments):
                    continue
                checked += 1
                problem = self.check(arguments, False)
                if problem and "RECIPE" not in arguments:
                    wrong.append(f"{example.place}: {problem}")
        self.assertEqual(wrong, [], "\n".join(wrong))
        self.assertGreater(checked, 40)

    def test_configurations_are_read(self):
        wrong, checked = [], 0
        for example in blocks("toml"):
            what, _, name = example.mark.partition(": ")
            if what == "not checked":
                continue
            checked += 1
            if what == "file" and name == "recipe":
                shutil.copytree(SOURCES / "recipes", self.root / "own", dirs_exist_ok=True)
                (self.root / "own/example.toml").write_text(example.text)
                problem = self.check(["run", "own/example.toml"], True)
            elif what == "command":
                (self.root / "example.toml").write_text(example.text)
                problem = self.check([name, "--config", "example.toml"], False)
            else:
                problem = "a comment before it has to say what it is for: <!-- command: NAME -->"
            if problem:
                wrong.append(f"{example.place}: {problem}")
        self.assertEqual(wrong, [], "\n".join(wrong))
        self.assertGreater(checked, 4)

    def test_recipes_can_read_their_options(self):
        for recipe in sorted((SOURCES / "recipes").glob("*.toml")):
            self.assertIsNone(self.check(["run", str(recipe)], True))
            for line in recipe.read_text(encoding="utf-8").splitlines():
                self.assertNotRegex(line, r'^data = "(\.\.|/)', f"{recipe}: a default outside of the folder")

    def test_examples_run(self):
        wrong, ran = [], 0
        environment = os.environ | {"PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}
        for example in blocks("sh"):
            if not is_run(example):
                continue
            ran += 1
            text = re.sub(r"^export PATH=.*$", "", example.text, flags=re.M)
            try:
                result = subprocess.run(["bash", "-e", "-c", text], stdin=subprocess.DEVNULL, capture_output=True,
                                        text=True, cwd=self.root, timeout=200, env=environment)
            except subprocess.TimeoutExpired:
                wrong.append(f"{example.place}: still running after 200 s")
                continue
            if result.returncode != 0:
                wrong.append(f"{example.place}: {result.stderr.strip()[-600:]}")
        self.assertEqual(wrong, [], "\n".join(wrong))
        self.assertGreater(ran, 10)


class Refusals(unittest.TestCase):
    def test_an_option_that_is_not_there_is_found(self):
        for arguments, what in ((["train", "--store", "x", "--learning-rate", "1"], "--learning-rate"),
                                (["train", "--store", "x", "--set", "parallel.method=bmuf", "--set",
                                  "parallel.sink-period=3"], "sink-period"),
                                (["train", "--store", "x", "--set", "parallel.method=ssgd", "--set",
                                  "parallel.codec.type=top-k", "--set", "parallel.codec.desity=1"], "desity"),
                                (["train", "--store", "x", "--set", "optimizer.type=natural-gradient", "--set",
                                  "optimizer.step.momentom=1"], "momentom"),
                                (["train", "--store", "x", "--set", "network.layer=[{type='tdnn',dmi=3}]"], "dmi"),
                                (["train", "--store", "x", "--set", "network.layers=[{type='relu'}]"], "layers"),
                                (["train", "--store", "x", "--set", "schedule.epochs=many"], "epochs"),
                                (["compress", "x", "--method", "svd", "--set", "svd.enrgy=1"], "enrgy"),
                                (["adapt", "x", "--data", "x", "--out", "x", "--set", "kld.rho=7"], "rho"),
                                (["compare", "--training", "x", "--out", "x", "--methods", "a", "b"], "'b'"),
                                (["decode", "--set", "threads=many", "--model", "m", "--graph", "g", "d", "o"],
                                 "threads")):
            result = run(*arguments, "--check-options")
            self.assertEqual(result.returncode, 2, f"{arguments}: {result.stdout}{result.stderr}")
            self.assertIn(what, result.stderr)

    def test_a_command_line_inside_shell_is_found(self):
        text = "mpirun -np 2 antiphon train --config a.toml \\\n  --out x >> log   # remark\ncat f | antiphon listen -"
        self.assertEqual(list(commands(text)), [["train", "--config", "a.toml", "--out", "x"], ["listen", "-"]])


class Reference(unittest.TestCase):
    def test_the_page_of_options_is_what_the_program_prints(self):
        page = (SOURCES / "docs/reference/options.md").read_text(encoding="utf-8")
        printed = run("help", "--reference").stdout
        self.assertEqual(page.splitlines(), printed.splitlines(),
                         "write it anew: antiphon help --reference > docs/reference/options.md")

    def test_it_names_what_all_layers_and_all_methods_take(self):
        printed = run("help", "--reference").stdout
        for chapter, source, place, key in (
                ("\n## Layers\n", "src/nn/layer.h", r"struct CommonLayerOptions {(.*?)\n};", r'\bv\("([\w-]+)"'),
                ("\n## Parallel methods\n", "src/parallel/strategy.cc", r"kCommonStrategyKeys = {([^}]*)}",
                 r'"([\w-]+)"')):
            keys = re.findall(key, re.search(place, (SOURCES / source).read_text(), re.DOTALL).group(1))
            self.assertTrue(keys)
            introduction = printed.partition(chapter)[2].partition("\n### ")[0]
            for name in keys:
                self.assertIn(f"`{name}`", introduction)

    def test_it_has_the_options_of_a_layer_that_holds_others(self):
        section = run("help", "--reference").stdout.partition("\n### layer: bidirectional\n")[2].partition("\n### ")[0]
        self.assertIn("| `right` |", section)


if __name__ == "__main__":
    SOURCES = pathlib.Path(sys.argv[1]).resolve()
    small_system.PROGRAM = str(pathlib.Path(sys.argv[2]).resolve())
    sys.argv = sys.argv[:1]
    unittest.main()
