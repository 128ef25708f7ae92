"""What every source file keeps to: an opening comment and #pragma once in headers, sizes of files and classes, no
leftovers.

Usage: source_style_test.py SOURCE-TREE
"""

import collections
import pathlib
import re
import sys

MAX_LINES = {".h": 250, ".cc": 450, ".cu": 450}
MAX_CLASS_LINES = 600
FOLDERS = ("src", "include", "apps", "tests", "bench", "fuzz")
CLASS = re.compile(r"^(?:template <.*> )?(?:class|struct) (?:\[\[.*?\]\] )?(\w+)\b[^;]*$")
MEMBER = re.compile(r"^[A-Za-z].*?\b(\w+)::~?\w+\(")
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
PRINTING = re.compile(r"\bstd::(cout|cerr)\b|\b(printf|puts|exit|abort)\(")


def problems_of(path, name):
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if path.suffix == ".h":
        if not lines or not lines[0].startswith("// "):
            yield f"{name}:1: a header opens with a comment that says what it is for"
        # Highway's per-target headers guard themselves, being included once per instruction set.
        if "#pragma once" not in lines and not name.endswith("-inl.h"):
            yield f"{name}: #pragma once is missing"
    if len(lines) > MAX_LINES[path.suffix]:
        yield f"{name}: {len(lines)} lines (at most {MAX_LINES[path.suffix]}): split it"
    if text and not text.endswith("\n"):
        yield f"{name}: the last line does not end"
    has_texts = name.startswith("tests/")  # what a program is expected to print stands there as it is
    for number, line in enumerate(lines, 1):
        if len(line) > 120 and not has_texts:
            yield f"{name}:{number}: {len(line)} columns (at most 120)"
        if ("\t" in line or line != line.rstrip()) and not has_texts:
            yield f"{name}:{number}: a tab, or blanks at the end"
        if LEFTOVER.search(line):
            yield f"{name}:{number}: unfinished: {line.strip()}"
        code = line.split("//")[0]
        if name.startswith("src/") and PRINTING.search(re.sub(r'"[^"]*"', '""', code)):
            yield f"{name}:{number}: the library never prints or exits: {line.strip()}"


def class_lines(path):
    """Lines of each class's own body and of its members' definitions, of those that begin at the left edge."""
    lines = path.read_text(encoding="utf-8").splitlines()
    counts = collections.Counter()
    for start, line in enumerate(lines):
        found = CLASS.match(line) or MEMBER.match(line)
        if not found or line.endswith(";"):
            continue
        end = start if line.endswith("}") else next(
            (i for i in range(start, len(lines)) if lines[i].startswith("}")), start)
        counts[found.group(1)] += end - start + 1
    return counts


def large_classes(files, root):
    of_folder = collections.defaultdict(collections.Counter)
    for path in files:
        of_folder[str(path.parent.relative_to(root))].update(class_lines(path))
    for folder, counts in sorted(of_folder.items()):
        for name, count in counts.items():
            if count > MAX_CLASS_LINES:
                yield f"{folder}: class {name} has {count} lines (at most {MAX_CLASS_LINES}): split it"


def main():
    root = pathlib.Path(sys.argv[1])
    files = sorted(p for top in FOLDERS for p in (root / top).rglob("*") if p.suffix in MAX_LINES)
    problems = [problem for p in files for problem in problems_of(p, str(p.relative_to(root)))]
    problems += large_classes(files, root)
    for problem in problems:
        print(problem)
    print(f"{len(files)} files, {len(problems)} problems")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
