"""Every public name has a docstring, its types are declared, and mypy accepts an example and the package itself."""

import ast
import inspect
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import package

antiphon = package.optional("antiphon")

EXAMPLE = '''
import numpy as np
import antiphon

def words(path: str) -> list[str]:
    result = antiphon.Recognizer("exp/mine", beam=12.0).recognize(path)
    return [word.word for word in result.words if word.confidence > 0.5]

def count(store: str) -> int:
    return sum(len(batch.labels) for batch in antiphon.FrameStore(store).minibatches(256))

def mean(table: str) -> float:
    return float(np.mean([features.mean() for _, features in antiphon.read_table(table)]))

frames = antiphon.FrontEnd(kind="mfcc")(np.zeros(16000, np.float32), 16000)
rows: int = frames.shape[0]
'''


def inherited(owner, name):
    return any(name in vars(base) for base in owner.__mro__[1:] if base is not object)


@package.need("antiphon")
class Documented(unittest.TestCase):
    def test_every_public_name_has_a_docstring(self):
        bare, seen = [], 0
        for name in antiphon.__all__:
            value = getattr(antiphon, name)
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
            environment = os.environ | {"MYPYPATH": str(folder.parent)}
            result = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary",
                                     "--follow-imports=silent", "--ignore-missing-imports", str(example)],
                                    capture_output=True, text=True, cwd=temporary, env=environment)
            self.assertEqual(result.stdout + result.stderr, "")
            itself = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary",
                                     "--ignore-missing-imports", "--allow-subclassing-any", "-p", "antiphon"],
                                    capture_output=True, text=True, cwd=temporary, env=environment)
            self.assertEqual(itself.stdout + itself.stderr, "")
            wrong = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "-c",
                                    "import antiphon\nantiphon.FrontEnd()('x', 'y')\n"],
                                   capture_output=True, text=True, cwd=temporary, env=environment)
            self.assertIn("arg-type", wrong.stdout)

    def test_the_program_is_there(self):
        result = subprocess.run([sys.executable, "-m", "antiphon", "--version"], capture_output=True, text=True,
                                env=os.environ | {"PATH": f"{package.program().parent}:{os.environ['PATH']}"})
        self.assertEqual((result.returncode, result.stdout.split()[0]), (0, "antiphon"), result.stderr)


if __name__ == "__main__":
    package.main()
