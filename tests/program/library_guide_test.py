"""The examples of docs/guides/use-as-a-library.md: built as the page says, against what `cmake --install` leaves, and run.

Every fenced block of the page is used, and one of a kind that is not known here is an error:

  cmake   the project that the C++ blocks are built by; the second, with a copy of the repository, is configured and
          compiles, but does not build the whole library once more
  cpp     the body of a function, in a program that has the names which the page speaks of (CPP below)
  c       the body of main

Each of them runs in a folder of its own that holds the files which they name.

Usage: library_guide_test.py SOURCE-TREE PROGRAM   (the program lies in its build folder)
"""

import os
import pathlib
import random
import re
import shutil
import sys
import unittest

import small_system
from small_system import call, must, speech, stereo_bytes, wav_bytes

SOURCES = pathlib.Path()
PAGE = "docs/guides/use-as-a-library.md"
BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```", re.M | re.S)

# What the blocks speak of: a recogniser, a microphone, features, and what is done with what comes out.
CPP = """#include <antiphon/aligner.h>
#include <antiphon/cancel.h>
#include <antiphon/corpus_aligner.h>
#include <antiphon/corpus_decoder.h>
#include <antiphon/error.h>
#include <antiphon/front_end.h>
#include <antiphon/model.h>
#include <antiphon/recognizer.h>
#include <antiphon/speaker_memory.h>
#include <antiphon/stream_scorer.h>

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

std::vector<float> samples;
struct {
  int seconds = 0;
  bool Read(std::vector<float>& heard) {
    heard.assign(8000, 0.0F);
    for (size_t i = 2000; i < 6000; ++i) heard[i] = i % 20 < 10 ? 0.2F : -0.2F;
    return seconds++ < 2;
  }
} microphone;
void Show(const std::string& text, bool final) { std::cout << final << " " << text << "\\n"; }
const std::string path = "call.wav";
void Skip(const std::string& file, const std::string& why) { std::cout << "left out: " << file << why << "\\n"; }
std::vector<float> features;
constexpr double now_s = 0;

"""
MAIN = """}  // namespace

int main(int, char** argv) {
  features.assign(10 * antiphon::Model("model.safetensors").feature_dim(), 0.5F);
  void (*const blocks[])(const antiphon::Recognizer&) = {BLOCKS};
  try {
    blocks[std::atoi(argv[1])](antiphon::Recognizer("model.safetensors", "graph"));
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\\n";
    return 1;
  }
}
"""
C = """#include <antiphon.h>
#include <stdio.h>

int main(void) {
%s  return 0;
}
"""


def blocks(text):
    """The kind and the text of each fenced block."""
    return [(found["kind"], found["text"]) for found in BLOCK.finditer(text)]


def program_of(pieces):
    """A program whose argument says which of the pieces is run. A piece may have a recogniser of its own."""
    functions = "".join(f"void Block{i}([[maybe_unused]] const antiphon::Recognizer& outer) {{\n"
                        f"  [[maybe_unused]] const antiphon::Recognizer& recognizer = outer;\n"
                        f"  {{\n{piece}  }}\n}}\n\n" for i, piece in enumerate(pieces))
    return CPP + functions + MAIN.replace("BLOCKS", ", ".join(f"Block{i}" for i in range(len(pieces))))


class LibraryGuide(small_system.SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        root = cls.root
        found = blocks((SOURCES / PAGE).read_text(encoding="utf-8"))
        cls.of_kind = {kind: [text for k, text in found if k == kind] for kind, _ in found}
        cls.prefix = root / "prefix"
        for component in ("library", "development"):
            call("cmake", "--install", pathlib.Path(small_system.PROGRAM).parent, "--prefix", cls.prefix, "--component",
                 component)
        cls.library = next(cls.prefix.rglob("libantiphon.so")).parent
        cls.environment = os.environ | {"PKG_CONFIG_PATH": str(cls.library / "pkgconfig"),
                                        "LD_LIBRARY_PATH": str(cls.library)}
        cls.make_files()

    @classmethod
    def make_files(cls):
        root, files = cls.root, cls.root / "files"
        files.mkdir()
        random_ = random.Random(4)
        shutil.copy(root / "net/model.safetensors", files / "model.safetensors")
        shutil.copytree(root / "graph", files / "graph")
        must("bundle", "--model", root / "net/model.safetensors", "--graph", root / "graph", "--out",
             files / "mine.antiphon")
        (files / "lexicon.txt").write_text("<SIL> SIL\nthe a\ncat b\nsat a\n")
        (files / "x.wav").write_bytes(wav_bytes(speech("ABA", random_)))
        (files / "call.wav").write_bytes(stereo_bytes(speech("AB", random_), speech("BA", random_)))
        shutil.copytree(root / "corpus", files / "data/test")
        (files / "recordings").mkdir()
        (files / "recordings/x.wav").write_bytes((files / "x.wav").read_bytes())
        (files / "recordings/x.txt").write_text("A B A")
        for name in ("annas-call", "a-guests-call", "monday", "tuesday"):
            (files / f"{name}.wav").write_bytes(wav_bytes(speech("BAB", random_)))
        must("adapt", root / "net/model.safetensors", "--out", root / "adapted", "--data", root / "corpus", "--graph",
             root / "graph", "--method", "lhuc", "--speaker", "s1", "--set", "train.data.minibatch=64", "--set",
             "train.schedule.epochs=1")
        shutil.copy(root / "adapted/profile.safetensors", files / "anna.safetensors")

    def folder(self, name):
        """With the files that the blocks name."""
        shutil.copytree(self.root / "files", self.root / name)
        return self.root / name

    def test_every_block_is_of_a_kind_that_is_run(self):
        self.assertEqual(set(self.of_kind), {"cmake", "cpp", "c"})
        self.assertEqual(len(self.of_kind["cmake"]), 2)
        self.assertGreaterEqual(len(self.of_kind["cpp"]), 7)
        self.assertGreaterEqual(len(self.of_kind["c"]), 1)

    def test_cpp_blocks_run_in_the_project_of_the_page(self):
        source, pieces = self.root / "mine", self.of_kind["cpp"]
        source.mkdir()
        (source / "CMakeLists.txt").write_text(self.of_kind["cmake"][0])
        (source / "mine.cc").write_text(program_of(pieces))
        call("cmake", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}",
             "-DCMAKE_CXX_FLAGS=-Wall -Wextra -pedantic -Werror -Wno-unused-variable")
        call("cmake", "--build", source / "build")
        for i, piece in enumerate(pieces):
            with self.subTest(piece):
                folder = self.folder(f"cpp{i}")
                printed = call(source / "build/mine", i, cwd=folder)
                if "cout" in piece or "Show(" in piece:
                    self.assertRegex(printed, r"\b(A|B|the)\b", "words")
                for name in re.findall(r'(?:ofstream|SaveMemory)\([^)]*?"([^"]+)"', piece):
                    self.assertGreater((folder / name).stat().st_size, 0)

    def test_c_blocks_run_by_pkg_config(self):
        flags = call("pkg-config", "--cflags", "--libs", "antiphon", env=self.environment).split()
        for i, piece in enumerate(self.of_kind["c"]):
            with self.subTest(piece):
                folder = self.folder(f"c{i}")
                (folder / "mine.c").write_text(C % piece)
                call(os.environ.get("CC", "cc"), "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror",
                     folder / "mine.c", "-o", folder / "mine", *flags)
                self.assertRegex(call(folder / "mine", cwd=folder, env=self.environment), r"\b[AB]\b")

    def test_the_repository_as_a_part_of_a_project(self):
        source = self.root / "part"
        (source / "third_party").mkdir(parents=True)
        (source / "third_party/antiphon").symlink_to(SOURCES)
        (source / "CMakeLists.txt").write_text(self.of_kind["cmake"][1])
        (source / "mine.cc").write_text(program_of(self.of_kind["cpp"][:1]))
        build = source / "build"
        call("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DANTIPHON_PYTHON_MODULE=OFF")
        call("ninja", "-C", build, "CMakeFiles/mine.dir/mine.cc.o")
        self.assertIn("libantiphon_api.a", call("ninja", "-C", build, "-t", "query", "mine"))


class Blocks(unittest.TestCase):
    def test_are_found_with_their_kinds(self):
        page = "a\n```cpp\nint i;\n```\nb `c`\n\n```\nplain\n```\n"
        self.assertEqual(blocks(page), [("cpp", "int i;\n"), ("", "plain\n")])


if __name__ == "__main__":
    SOURCES = pathlib.Path(sys.argv[1]).resolve()
    small_system.PROGRAM = str(pathlib.Path(sys.argv[2]).resolve())
    if not (pathlib.Path(small_system.PROGRAM).parent / "libantiphon.so").exists():
        print("skipped: this build has no libantiphon.so")
        sys.exit(77)
    sys.argv = sys.argv[:1]
    unittest.main()
