"""What `cmake --install` leaves: programs of others find it by find_package and pkg-config; manual pages; completion.

Usage: install_test.py SOURCE-TREE PROGRAM   (the program lies in its build folder)
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import small_system
from small_system import call, must, run

SOURCES = pathlib.Path()
PROJECT = """cmake_minimum_required(VERSION 3.20)
project(consumer LANGUAGES CXX)
find_package(antiphon 0.1 REQUIRED)
add_executable(consumer consumer.cc)
target_link_libraries(consumer PRIVATE antiphon::antiphon)
"""


class Installed(small_system.SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prefix = cls.root / "prefix"
        # By components, as packages are made.
        for component in ("program", "library", "development"):
            call("cmake", "--install", pathlib.Path(small_system.PROGRAM).parent, "--prefix", cls.prefix, "--component",
                 component)
        cls.library = next(cls.prefix.rglob("libantiphon.so")).parent
        cls.spoken = sorted((cls.root / "corpus").glob("*.wav"))[:2]
        must("decode", "--model", cls.root / "net/model.safetensors", "--graph", cls.root / "graph",
             cls.root / "corpus", cls.root / "decoded")

    def check_consumer(self, program, **options):
        printed = call(program, self.root / "net/model.safetensors", self.root / "graph", *self.spoken, **options)
        for audio in self.spoken:
            self.assertRegex(printed, rf"(?m)^{re.escape(str(audio))}: [AB ]+$")

    def test_find_package(self):
        source = self.root / "by_cmake"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(PROJECT)
        shutil.copy(SOURCES / "docs/examples/recognize.cc", source / "consumer.cc")
        call("cmake", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}",
             "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror -pedantic")
        call("cmake", "--build", source / "build")
        self.check_consumer(source / "build/consumer")

    def test_pkg_config_also_after_a_move(self):
        moved = self.root / "moved"
        shutil.copytree(self.prefix, moved, symlinks=True)
        library = moved / self.library.relative_to(self.prefix)
        environment = os.environ | {"PKG_CONFIG_PATH": str(library / "pkgconfig"), "LD_LIBRARY_PATH": str(library)}
        flags = call("pkg-config", "--cflags", "--libs", "antiphon", env=environment).split()
        self.assertIn(str(moved), " ".join(map(os.path.realpath, (f[2:] for f in flags if f.startswith("-I")))))
        call(os.environ.get("CXX", "c++"), "-std=c++20", SOURCES / "docs/examples/recognize.cc", "-o",
             self.root / "by_pkg_config", *flags)
        self.check_consumer(self.root / "by_pkg_config", env=environment)

    def test_every_public_header_stands_alone(self):
        for header in sorted((self.prefix / "include/antiphon").glob("*.h")):
            (self.root / "header.cc").write_text(f"#include <antiphon/{header.name}>\n" * 2)
            call(os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-pedantic",
                 "-Werror", "-I", self.prefix / "include", self.root / "header.cc")

    def test_the_library_shows_its_interface_and_nothing_else(self):
        headers = "".join(path.read_text() for path in (self.prefix / "include/antiphon").glob("*.h"))
        marked = set(re.findall(r"(?m)^(?:class|struct) ANTIPHON_API (\w+)", headers))
        marked |= set(re.findall(r"(?m)^ANTIPHON_API [^;(]*?(\w+)\(", headers))
        c_functions = set(re.findall(r"\b(antiphon_\w+)\(", re.sub(r"(?m)^ *(//|/?\*).*", "",
                                                                  (self.prefix / "include/antiphon.h").read_text())))
        shown, others = set(), []
        for line in call("nm", "-DC", "--defined-only", self.library / "libantiphon.so").splitlines():
            name = line.split(maxsplit=2)[2]
            found = re.match(r"(?:(?:typeinfo|typeinfo name|vtable) for )?(?:antiphon::(\w+)|(antiphon_\w+)$)", name)
            if not found or re.search(r"::(Impl|State)\b(?! const>|>)", name.split("(")[0]):
                others.append(name)
            else:
                shown.add(found.group(1) or found.group(2))
        self.assertEqual(others, [])
        self.assertGreater(len(c_functions), 30)
        self.assertGreater(len(marked), 25)
        self.assertEqual(shown, marked | c_functions)

    def test_the_library_brings_no_protobuf(self):
        # Which quarrels with another copy of itself in the program of somebody else.
        needed = call("readelf", "-d", self.library / "libantiphon.so")
        self.assertIn("libsndfile", needed)
        self.assertNotRegex(needed, "protobuf|onnx")

    def test_program_recipes_and_models_are_there(self):
        self.assertEqual(call(self.prefix / "bin/antiphon", "--version"), run("--version").stdout)
        installed = {path.name for path in (self.prefix / "share/antiphon/recipes").iterdir()}
        recipes = SOURCES / "recipes"
        self.assertEqual(installed, {path.name for path in recipes.iterdir() if path.suffix == ".toml" or path.is_dir()})
        self.assertTrue((self.prefix / "share/antiphon/recipes/scripts/vad_recordings.py").exists(), "what a step runs")
        models = {path.name for path in (self.prefix / "share/antiphon/models").iterdir()}
        self.assertEqual(models, {path.name for path in (SOURCES / "models").iterdir()})

    def test_every_command_has_a_manual_page(self):
        commands = run("help", "--commands").stdout.splitlines()
        self.assertGreater(len(commands), 20)
        pages = {path.name for path in (self.prefix / "share/man/man1").iterdir()}
        self.assertEqual(pages, {"antiphon.1"} | {f"antiphon-{name.replace(' ', '-')}.1" for name in commands})
        text = (self.prefix / "share/man/man1/antiphon-decode.1").read_text()
        self.assertIn("\\-\\-beam", text)
        if shutil.which("groff"):
            for page in sorted(pages):
                result = subprocess.run(["groff", "-k", "-man", "-Tutf8", "-ww", "-z", self.prefix / "share/man/man1" / page],
                                        capture_output=True, text=True)
                self.assertEqual(result.stderr, "", page)

    def completed(self, *words):
        script = self.prefix / "share/bash-completion/completions/antiphon"
        line = f'source {script}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _antiphon; echo "${{COMPREPLY[@]}}"'
        return call("bash", "--norc", "-c", line, "bash", "antiphon", *words, cwd=self.root).split()

    def test_bash_completes(self):
        self.assertEqual(self.completed("dec"), ["decode"])
        self.assertIn("train", self.completed("bench", ""))
        self.assertEqual(self.completed("features", "--mel-b"), ["--mel-bins"])
        self.assertEqual(self.completed("features", "--snip-e"), ["--snip-edges"])
        self.assertIn("--no-snip-edges", self.completed("features", "--no-"))
        self.assertEqual(sorted(self.completed("features", "--kind", "")), ["fbank", "mfcc", "plp"])
        self.assertEqual(self.completed("info", "lexi"), ["lexicon.txt"])
        self.assertIn("decode", self.completed("help", ""))

    def test_zsh_completion_is_sound(self):
        if not shutil.which("zsh"):
            self.skipTest("no zsh here")
        call("zsh", "-n", self.prefix / "share/zsh/site-functions/_antiphon")

    def test_zsh_completion_is_where_zsh_looks(self):
        """Below /usr, as packages are, and below /usr/local."""
        for prefix, place in (("usr", "share/zsh/vendor-completions"), ("usr/local", "share/zsh/site-functions")):
            call("cmake", "--install", pathlib.Path(small_system.PROGRAM).parent, "--prefix", self.root / "as" / prefix,
                 "--component", "program")
            self.assertEqual(list((self.root / "as" / prefix).rglob("_antiphon")),
                             [self.root / "as" / prefix / place / "_antiphon"])
            if shutil.which("zsh") and pathlib.Path("/etc/debian_version").exists():
                self.assertIn(f"/{prefix}/{place}", call("zsh", "-f", "-c", "print -l $fpath").splitlines())


class Refusals(unittest.TestCase):
    def test_pages_that_there_are_not(self):
        for arguments, text in ((["--mna"], "--man"), (["--completion"], "bash or zsh"),
                                (["--completion", "fish"], "bash"), (["--man", "decod"], "decode"),
                                (["--man", "decode", "x"], "too many"), (["--reference", "x"], "too many")):
            result = run("help", *arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
            self.assertIn(text, result.stderr)


if __name__ == "__main__":
    SOURCES = pathlib.Path(sys.argv[1]).resolve()
    small_system.PROGRAM = str(pathlib.Path(sys.argv[2]).resolve())
    if not (pathlib.Path(small_system.PROGRAM).parent / "libantiphon.so").exists():
        print("skipped: this build has no libantiphon.so")
        sys.exit(77)
    sys.argv = sys.argv[:1]
    unittest.main()
