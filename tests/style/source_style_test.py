"""What every source file keeps to: an opening comment and #pragma once in headers, sizes, no leftovers, no paths of a machine.

Usage: source_style_test.py SOURCE-TREE
"""

import pathlib
import re
import sys

MAX_LINES = {".h": 250, ".cc": 500, ".cu": 500}
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
    for number, line in enumerate(lines, 1):
        if len(line) > 120:
            yield f"{name}:{number}: {len(line)} columns (at most 120)"
        if "\t" in line or line != line.rstrip():
            yield f"{name}:{number}: a tab, or blanks at the end"
        if LEFTOVER.search(line):
            yield f"{name}:{number}: unfinished: {line.strip()}"
        code = line.split("//")[0]
        if name.startswith("src/") and PRINTING.search(re.sub(r'"[^"]*"', '""', code)):
            yield f"{name}:{number}: the library never prints or exits: {line.strip()}"


def main():
    root = pathlib.Path(sys.argv[1])
    files = [p for top in ("src", "include", "apps") for p in (root / top).rglob("*") if p.suffix in MAX_LINES]
    problems = [problem for p in sorted(files) for problem in problems_of(p, str(p.relative_to(root)))]
    for problem in problems:
        print(problem)
    print(f"{len(files)} files, {len(problems)} problems")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
