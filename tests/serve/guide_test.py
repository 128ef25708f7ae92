"""The examples of docs/guides/serve.md that talk to a server: the Python ones, and those of curl.

Usage: guide_test.py SOURCE-TREE PROGRAM
"""

import contextlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys

import serving

try:
    import openai  # noqa: F401
except ImportError:
    print("skipped: the Python package openai is missing (scripts/venv)")
    sys.exit(77)
if not shutil.which("curl"):
    print("skipped: curl is missing")
    sys.exit(77)

PAGE = pathlib.Path(sys.argv[1]).resolve() / "docs/guides/serve.md"
BLOCK = re.compile(r"^(?:<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```", re.M | re.S)
ADDRESS = "127.0.0.1:2700"


class Guide(serving.ServedTest):
    """In the folder that has what the page names, against a server at another port."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page_server = serving.Server(cls.root, models=[f"recogniser={cls.root}/net/model.safetensors"])
        cls.blocks = list(BLOCK.finditer(PAGE.read_text(encoding="utf-8")))
        cls.before = os.getcwd()
        os.chdir(cls.root)

    @classmethod
    def tearDownClass(cls):
        os.chdir(cls.before)
        status = cls.page_server.stop()
        super().tearDownClass()
        if status != 0:
            raise AssertionError(f"the server ended with status {status}: {''.join(cls.page_server.log)[-3000:]}")

    def here(self, text):
        self.assertIn(ADDRESS, text)
        return text.replace(ADDRESS, f"127.0.0.1:{self.page_server.port}")

    def test_kinds_of_blocks(self):
        self.assertEqual({block["kind"] for block in self.blocks}, {"sh", "python"})

    def test_python(self):
        words, ran = " ".join(serving.WORDS), 0
        for block in self.blocks:
            if block["kind"] != "python":
                continue
            ran += 1
            printed = io.StringIO()
            with self.subTest(block["text"]), contextlib.redirect_stdout(printed):
                exec(compile(self.here(block["text"]), str(PAGE), "exec"), {})
            self.assertIn(words, printed.getvalue().replace("\n", " "))
        self.assertGreaterEqual(ran, 1)

    def test_curl(self):
        ran = 0
        for block in self.blocks:
            if block["mark"] != "options only: needs a server":
                continue
            for command in self.here(block["text"]).replace("\\\n", " ").splitlines():
                with self.subTest(command):
                    ran += 1
                    result = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True,
                                            text=True, timeout=100)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    # Whatever stands between the words: times, numbers, other words in their place.
                    said = re.findall(r"\b[AB]\b", result.stdout)
                    self.assertEqual(said[:len(serving.WORDS)], serving.WORDS, result.stdout)
        self.assertGreaterEqual(ran, 3)


if __name__ == "__main__":
    serving.main()
