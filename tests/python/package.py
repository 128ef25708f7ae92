"""What the tests of the Python package share: the package itself, and a small system made by the program.

A test file ends with package.main(): its arguments are SOURCE-TREE PROGRAM.
"""

import importlib
import importlib.util
import pathlib
import sys
import unittest

SOURCES = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
sys.path.insert(0, str(SOURCES / "tests/program"))

import small_system  # noqa: E402


def optional(name):
    """The module, or None if it is not there. One that is there and cannot be imported is an error."""
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def need(*modules):
    """Skips what needs a module that this Python lacks."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"no {', '.join(missing)} here (scripts/venv)")


def program():
    """The program under test."""
    return pathlib.Path(small_system.PROGRAM)


def plain_program():
    """The program that knows nothing of Python: in a wheel's environment `antiphon` is the package's command."""
    inside = pathlib.Path(importlib.import_module("antiphon").__file__).parent / "bin/antiphon"
    return inside if inside.exists() else program()


def main():
    if importlib.util.find_spec("antiphon") is None:
        print("skipped: there is no Python package antiphon (-DANTIPHON_PYTHON_MODULE=ON builds it)")
        sys.exit(77)
    small_system.PROGRAM = str(pathlib.Path(sys.argv[2]).resolve())
    sys.argv = sys.argv[:1]
    unittest.main()
