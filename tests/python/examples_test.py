"""The examples of docs/guides/python.md, one after another, in a folder that has what they name."""

import contextlib
import importlib.util
import io
import os
import re
import shutil
import unittest

import package
from system import SystemTest

BLOCK = re.compile(r"(?:<!-- needs: (?P<module>\w+) -->\n)?^```python\n(?P<text>.*?)^```", re.M | re.S)


@package.need("antiphon")
class Examples(SystemTest):
    def test_examples_run(self):
        for name, what in (("exp/mine/network", "net"), ("exp/mine/graph", "graph"), ("exp/train", "feats"),
                           ("exp/store", "store"), ("exp/align", "align"), ("data/test", "corpus")):
            shutil.copytree(self.root / what, self.root / name)
        (self.root / "lang").mkdir()
        shutil.copy(self.root / "lexicon.txt", self.root / "lang")
        shutil.copy(next((self.root / "corpus").glob("*.wav")), self.root / "call.wav")
        page = package.SOURCES / "docs/guides/python.md"
        names, ran, before = {}, 0, os.getcwd()
        os.chdir(self.root)
        try:
            for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
                if block["module"] and importlib.util.find_spec(block["module"]) is None:
                    continue
                with self.subTest(block["text"]), contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(block["text"], str(page), "exec"), names)
                ran += 1
        finally:
            os.chdir(before)
        self.assertGreaterEqual(ran, 4)


if __name__ == "__main__":
    package.main()
