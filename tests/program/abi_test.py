"""Programs that were linked with the library as tests/abi describes it run with this one (scripts/abi).

Usage: abi_test.py SOURCE-TREE PROGRAM   (the program lies in its build folder)
"""

import lzma
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCES, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
BUILD = BUILD.parent


def check(*description, sources=SOURCES):
    return subprocess.run([sources / "scripts/abi", "check", BUILD, *description], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=250)


def without_a_function(description):
    """A description that says of a function that it has another name."""
    text = lzma.open(description, "rt").read()
    changed = text.replace("_ZN8antiphon10NameOf", "_ZN8antiphon10NameOg").replace(
        "_ZN8antiphon6NameOfENS_9ErrorKindE", "_ZN8antiphon6NameOgENS_9ErrorKindE")
    assert changed != text
    return changed


class Abi(unittest.TestCase):
    def test_nothing_breaks_programs(self):
        result = check()
        self.assertEqual(result.returncode, 0, f"{result.stdout}{result.stderr}")

    def test_what_breaks_programs_is_seen(self):
        description, = (SOURCES / "tests/abi").glob("*.xml.xz")
        text = lzma.open(description, "rt").read()
        changes = {
            "a function that is gone": without_a_function(description),
            "a member that was not there": re.sub(
                r"(name='RecognizerSettings' size-in-bits=')\d+('.*?>)\s*<data-member .*?</data-member>",
                r"\g<1>3200\2", text, count=1, flags=re.S),
        }
        with tempfile.TemporaryDirectory() as temporary:
            for what, changed in changes.items():
                with self.subTest(what):
                    self.assertNotEqual(changed, text)
                    other = pathlib.Path(temporary) / "other.xml.xz"
                    other.write_bytes(lzma.compress(changed.encode(), preset=0))
                    result = check(other)
                    self.assertEqual(result.returncode, 1, result.stdout)
                    self.assertIn("may break", result.stderr)

    @unittest.skipUnless(shutil.which("git"), "there is no git")
    def test_the_last_release_counts(self):
        with tempfile.TemporaryDirectory() as temporary:
            sources = pathlib.Path(temporary)

            def git(*arguments):
                subprocess.run(["git", "-C", sources, "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
                               check=True, capture_output=True)

            for name in ("scripts/abi", "scripts/common.sh"):
                (sources / name).parent.mkdir(exist_ok=True)
                shutil.copy(SOURCES / name, sources / name)
            for name in ("tests/abi", "include"):
                shutil.copytree(SOURCES / name, sources / name)
            description, = (sources / "tests/abi").glob("*.xml.xz")
            now = description.read_bytes()
            description.write_bytes(lzma.compress(without_a_function(description).encode(), preset=0))
            git("init")
            git("add", ".")
            git("commit", "-m", "a release")
            git("tag", "v0.1.0")
            description.write_bytes(now)
            git("commit", "-a", "-m", "updated")
            result = check(sources=sources)
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertIn("as release v0.1.0 has it may break", result.stderr)
            git("tag", "-f", "v0.1.0")
            result = check(sources=sources)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("is compatible with release v0.1.0", result.stdout)
            git("tag", "-d", "v0.1.0")  # as in a shallow checkout
            result = check(sources=sources)
            self.assertEqual((result.returncode, "release" in result.stdout), (0, False), result.stderr)


if __name__ == "__main__":
    if not shutil.which("abidiff"):
        print("skipped: there is no abidiff (Debian package abigail-tools)")
        sys.exit(77)
    if not (BUILD / "libantiphon.so").exists():
        print("skipped: this build has no libantiphon.so")
        sys.exit(77)
    compiler = subprocess.run(["readelf", "-p", ".comment", BUILD / "libantiphon.so"], capture_output=True, text=True)
    if not re.search(r"GCC: \(.*\) 12\.", compiler.stdout):
        print("skipped: the description is one by gcc 12, whose debug information names types in its own way")
        sys.exit(77)
    sys.argv = sys.argv[:1]
    unittest.main()
