"""The notebooks of docs/examples run from top to bottom, cell after cell, in a folder that has what they name."""

import ast
import contextlib
import io
import json
import os
import shutil
import unittest

import package
from system import SystemTest


def cells():
    """(notebook, code cells) of each."""
    for path in sorted((package.SOURCES / "docs/examples").glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        yield path, ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


class Notebooks(unittest.TestCase):
    def test_there_are_some_and_they_are_clean(self):
        found = list(cells())
        self.assertTrue(found)
        for path, codes in found:
            for code in codes:
                ast.parse(code)
            notebook = json.loads(path.read_text(encoding="utf-8"))
            self.assertEqual(notebook["nbformat"], 4)
            self.assertFalse([cell for cell in notebook["cells"] if cell.get("outputs")], "outputs are not kept")


@package.need("antiphon", "torch")
class RunNotebooks(SystemTest):
    def test_they_run(self):
        for name, what in (("exp/store", "store"), ("exp/align", "align")):
            shutil.copytree(self.root / what, self.root / name)
        before = os.getcwd()
        os.chdir(self.root)
        try:
            for path, codes in cells():
                names = {}
                for code in codes:
                    with self.subTest(notebook=path.name, cell=code), contextlib.redirect_stdout(io.StringIO()):
                        exec(compile(code, str(path), "exec"), names)
                self.assertGreater(names["accuracy"], 0.3)
        finally:
            os.chdir(before)


if __name__ == "__main__":
    package.main()
