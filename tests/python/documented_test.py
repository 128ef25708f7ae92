"""Every public name has a docstring, its types are declared, and mypy accepts an example and the package itself."""

import ast
import inspect
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import typing
import unittest

import package

antiphon = package.optional("antiphon")
if antiphon is not None:
    from antiphon import _core, _improvement, _keywords, _toml

EXAMPLE = '''
import numpy as np
import antiphon

def words(path: str) -> list[str]:
    result = antiphon.Recognizer("exp/mine", beam=12.0, nbest=None, hotwords={"a": 2}, word_list=("a", "b"),
                                 add_words=["c", ("d", "d iy", 2.0)], precision="int8").recognize(path)
    return [word.word for word in result.words if word.confidence > 0.5]

def count(store: str) -> int:
    return sum(len(batch.labels) for batch in antiphon.FrameStore(store).minibatches(256))

def mean(table: str) -> float:
    return float(np.mean([features.mean() for _, features in antiphon.read_table(table)]))

def hear(recognizer: antiphon.Recognizer, audio: antiphon.Audio, samples: antiphon.Samples) -> str:
    with recognizer.stream(8000, endpoint_silence=1) as stream:
        stream.accept(samples)
        stream.accept([0.0, 0.5])
    return recognizer.recognize(audio, memory=stream.memory).json() + recognizer.recognize(b"RIFF").text

frames = antiphon.FrontEnd(kind="mfcc", window="hamming")(np.zeros(16000, np.float32), 16000)
rows: int = frames.shape[0]
antiphon.Aligner("exp/mine", beam=20).align(np.zeros(16000, np.int16), "a", 16000)
antiphon.train("exp/store", "exp/net", schedule={"epochs": 2}, held_out={"fraction": 0.2})
antiphon.Compressor("exp/net", "prune-nodes", prune_nodes={"size": 0.3})
antiphon.Adapter("exp/net", store="exp/mine", min_gain=0.01, kld={"rho": [0.5]})
antiphon.train_g2p("lexicon.txt", "x.g2p", order=4)
decoded = antiphon.decode("exp/mine", "data/test", "exp/decode", nbest=3, nnet={"precision": "int8"})
wrong: float = decoded.errors.rate if decoded.errors is not None else 0.0
aligned = antiphon.align("data/test", "exp/times", model="exp/mine", files=["TextGrid"], align={"beam": 20})
skipped: list[str] = [remark.where for remark in aligned.skipped]
sound: bool = antiphon.check_corpus("data/test", lexicon="lexicon.txt", gaps="all").fine
token = antiphon.CancelToken()
antiphon.train("exp/store", "exp/net", on_metrics=lambda record: token.cancel(), cancel=token)
stopped: bool = token.cancelled
'''

# Each with the code of mypy's error.
MISTAKES = (
    ("antiphon.FrontEnd()('x', 8000)", "arg-type"),
    ("antiphon.FrontEnd(kind='mfc')", "arg-type"),
    ("antiphon.FrontEnd(mel_bin=3)", "call-arg"),
    ("antiphon.FrontEnd.standard('mfcc', cep=3)", "call-arg"),
    ("antiphon.Recognizer('x', beem=3)", "call-arg"),
    ("antiphon.Recognizer('x', beam='3')", "arg-type"),
    ("antiphon.Recognizer('x', precision='fp8')", "arg-type"),
    ("antiphon.Recognizer('x', hotwords=['a'])", "list-item"),
    ("antiphon.Recognizer('x').recognize(3)", "arg-type"),
    ("antiphon.Recognizer('x').recognize('x', nbset=3)", "call-arg"),
    ("antiphon.Recognizer('x').stream(8000, beam=3)", "call-arg"),
    ("antiphon.Recognizer('x').stream(8000, memory='ann')", "arg-type"),
    ("antiphon.Recognizer('x').stream(8000).accept('x')", "arg-type"),
    ("antiphon.Aligner('x', baem=3)", "call-arg"),
    ("antiphon.Aligner('x').align(None, 'a')", "arg-type"),
    ("antiphon.train('x', 'y', shcedule={})", "call-arg"),
    ("antiphon.train('x', 'y', schedule=3)", "arg-type"),
    ("antiphon.train_g2p('x', 'y', ordre=3)", "call-arg"),
    ("antiphon.train('x', 'y', cancel=True)", "arg-type"),
    ("antiphon.Recognizer('x').stream(8000, cancel=3)", "arg-type"),
    ("antiphon.Compressor('x', 'sdv')", "arg-type"),
    ("antiphon.Compressor('x', 'svd', nonsense=3)", "call-arg"),
    ("antiphon.Adapter('x', store='y', method='kdl')", "arg-type"),
    ("antiphon.Adapter('x', store='y', min_gian=3)", "call-arg"),
    ("antiphon.decode('x', 'y', 'z', nbset=3)", "call-arg"),
    ("antiphon.decode('x', 'y', 'z', channels='both')", "arg-type"),
    ("antiphon.align('x', 'y', last_stage='tree')", "arg-type"),
    ("antiphon.check_corpus('x', tune=True)", "call-arg"),
)


def names_of(options):
    """As keywords."""
    return {name.replace("-", "_") for name in options}


def documented(command):
    """The names of a command's options and of its tables, as keywords, by the reference."""
    reference = (package.SOURCES / "docs/reference/options.md").read_text(encoding="utf-8")
    section = reference.split(f"\n## antiphon {command}\n")[1].split("\n## ")[0]
    return names_of(re.findall(r"^\| `--([a-z0-9-]+)", section, re.M))


def methods(command):
    """What a command can do by name."""
    said = subprocess.run([package.program(), command, "x", "--out", "y", "--method", "list"], capture_output=True,
                          text=True, check=True).stdout
    return said.split()


def inherited(owner, name):
    return any(name in vars(base) for base in owner.__mro__[1:] if base is not object)


@package.need("antiphon")
class Documented(unittest.TestCase):
    def test_every_public_name_has_a_docstring(self):
        bare, seen = [], 0
        for name in antiphon.__all__:
            value = getattr(antiphon, name)
            if typing.get_origin(value) is not None:
                continue  # types of arguments, which can have none
            members = [(name, value)]
            if inspect.isclass(value):
                members += [(f"{name}.{inner}", member) for inner, member in vars(value).items()
                            if (not inner.startswith("_") or inner in ("__init__", "__call__", "__next__")) and
                            (callable(member) or isinstance(member, (property, staticmethod, classmethod))) and
                            not inherited(value, inner) and inner not in getattr(value, "_fields", ()) and
                            not (inner == "__init__" and hasattr(value, "__dataclass_fields__"))]
            for path, member in members:
                seen += 1
                text = inspect.getdoc(member)
                if not text or text.startswith(name + "("):
                    bare.append(path)
        self.assertEqual(bare, [])
        self.assertGreater(seen, 50)

    def test_every_field_has_a_docstring(self):
        bare, seen = [], 0
        for name in antiphon.__all__:
            value = getattr(antiphon, name)
            if not hasattr(value, "__dataclass_fields__") and not hasattr(value, "_fields"):
                continue
            body = ast.parse(inspect.getsource(value)).body[0].body
            for field, after in zip(body, [*body[1:], None]):
                if isinstance(field, ast.AnnAssign):
                    seen += 1
                    if not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)):
                        bare.append(f"{name}.{field.target.id}")
        self.assertEqual(bare, [])
        self.assertGreater(seen, 40)

    def test_all_names_what_there_is(self):
        public = {name for name, value in vars(antiphon).items()
                  if not name.startswith("_") and not inspect.ismodule(value)}
        self.assertEqual(public, set(antiphon.__all__))
        self.assertRegex(antiphon.__version__, r"^\d+\.\d+\.\d+$")

    @package.need("mypy")
    def test_types_are_right(self):
        folder = pathlib.Path(antiphon.__file__).parent
        self.assertTrue((folder / "py.typed").exists())
        with tempfile.TemporaryDirectory() as temporary:
            example = pathlib.Path(temporary) / "example.py"
            example.write_text(EXAMPLE)
            # Of a package that is installed mypy knows by itself, and refuses to be told.
            installed = folder.parent == pathlib.Path(sysconfig.get_path("platlib"))
            environment = os.environ | ({} if installed else {"MYPYPATH": str(folder.parent)})
            result = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary",
                                     "--follow-imports=silent", "--ignore-missing-imports", str(example)],
                                    capture_output=True, text=True, cwd=temporary, env=environment)
            self.assertEqual(result.stdout + result.stderr, "")
            itself = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary",
                                     "--ignore-missing-imports", "--allow-subclassing-any", "-p", "antiphon"],
                                    capture_output=True, text=True, cwd=temporary, env=environment)
            self.assertEqual(itself.stdout + itself.stderr, "")
            wrong = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent",
                                    "--ignore-missing-imports", "-c",
                                    "\n".join(["import antiphon", *(line for line, _ in MISTAKES)])],
                                   capture_output=True, text=True, cwd=temporary, env=environment)
            found = re.findall(r"^<string>:(\d+): error: .*\[([a-z-]+)\]$", wrong.stdout, re.M)
            self.assertEqual([(MISTAKES[int(line) - 2][0], code) for line, code in found], list(MISTAKES),
                             wrong.stdout)

    def test_keywords_are_the_librarys(self):
        for kind, settings, others in ((_keywords.RecognizerKeywords, _core.RecognizerSettings, set()),
                                       (_keywords.StreamKeywords, _core.StreamSettings, {"partial"}),
                                       (_keywords.AlignerKeywords, _core.AlignerSettings, set())):
            names = {name for name in dir(settings()) if not name.startswith("_")}
            self.assertEqual({*kind.__annotations__, *others}, names)
        options = _toml.toml_table(antiphon.FrontEnd().options)
        self.assertEqual(set(_keywords.FrontEndKeywords.__annotations__), {name.replace("-", "_") for name in options})
        self.assertEqual(list(_improvement.CompressionMethod.__args__), methods("compress"))
        self.assertEqual(list(_improvement.AdaptationMethod.__args__), methods("adapt"))

    def test_keywords_are_the_commands(self):
        everywhere, tables = {"seed", "threads", "config"}, {"optimizer"}
        of_audio = {"data", "lexicon", "unsupervised", "graph", "adapt_graph", "weights", "min_confidence",
                    "chain_data", "speaker", "audio_root", "allow_commands", "features", "utt2spk", "cmvn", "norm_vars",
                    "speaker_model", "speaker_transforms", "speaker_vectors"}
        of_search = {"rtf", "size_mb", "stream_mb", "max_wer_loss", "slack", "batch", "try"}
        for call, command, more, less in (
                (antiphon.train, "train", {"network", "parallel", "cluster", "on_metrics", "cancel"} | tables | everywhere,
                 {"evaluate", "restarts", "launch"}),
                (antiphon.Compressor, "compress", names_of(methods("compress")) | tables | everywhere,
                 of_search | {"out"}),
                (antiphon.Adapter, "adapt", names_of(methods("adapt")) | tables | everywhere, of_audio | {"out"}),
                (antiphon.train_g2p, "g2p train", {"threads", "cancel"}, {"held_out"}),
                (antiphon.decode, "decode", {"cancel"} | everywhere, set()),
                (antiphon.align, "align", {"cancel"} | everywhere, {"validate"}),
                (antiphon.check_corpus, "align", {"cancel"} | everywhere, {"validate", "out", "seed"})):
            shown = set(inspect.signature(call).parameters)
            self.assertEqual(shown, (documented(command) | more) - less, command)

    def test_signatures_show_every_keyword(self):
        self.assertLessEqual({"beam", "hotwords"}, set(inspect.signature(antiphon.Recognizer).parameters))
        for call in (antiphon.Recognizer.stream, antiphon.Aligner, antiphon.FrontEnd, antiphon.FrontEnd.standard):
            parameters = inspect.signature(call).parameters.values()
            self.assertFalse([p for p in parameters if p.kind == p.VAR_KEYWORD])
            self.assertTrue([p for p in parameters if p.kind == p.KEYWORD_ONLY])

    def test_the_program_is_there(self):
        result = subprocess.run([sys.executable, "-m", "antiphon", "--version"], capture_output=True, text=True,
                                env=os.environ | {"PATH": f"{package.program().parent}:{os.environ['PATH']}"})
        self.assertEqual((result.returncode, result.stdout.split()[0]), (0, "antiphon"), result.stderr)


if __name__ == "__main__":
    package.main()
