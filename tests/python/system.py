"""A small system of the program's making, and a frame store of it, for tests of the Python package."""

import pathlib
import tempfile
import unittest

import package  # noqa: F401  (finds small_system)
import small_system


class SystemTest(unittest.TestCase):
    """Its cases share one system, in the folder `root` (tests/program/small_system.py)."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temporary.name)
        small_system.make_system(cls.root)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()
