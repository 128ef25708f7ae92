"""What every page of documentation keeps to: lines of 100 columns, links and anchors that lead somewhere, whole tables,
paths of sources that exist, switches as the program takes them, and a way to it from docs/README.md. Pages that sources
name exist.

Usage: documentation_test.py SOURCE-TREE
"""

import os
import pathlib
import re
import sys

MAX_COLUMNS = 100
LINK = re.compile(r"\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:src|apps|tests|bench|recipes|scripts|cmake|fuzz|include|docs|python)/[\w./-]*\w)`")
SWITCH = re.compile(r"(--[a-z][\w.-]*)\s+(?:true|false)\b")
NAMED = re.compile(r"\bdocs/[\w./-]+\.(?:md|toml|cc|png)\b")
SOURCES = ("src", "apps", "include", "tests", "scripts", "recipes", "fuzz", "bench", "cmake")
SUFFIXES = (".h", ".cc", ".py", ".toml", ".txt", ".cmake")
HISTORY = ("docs/results/log.md", "CHANGELOG.md")  # speak of files that may be gone


def pages(root):
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def lines_of(text):
    """Each line with its number and whether it stands in a fenced block."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        mark = line.lstrip().startswith("```")
        yield number, line, fenced or mark
        fenced ^= mark


def anchors(text):
    """The anchors of a page's headings, as sites of repositories and the documentation's own make them."""
    found = set()
    for _, line, fenced in lines_of(text):
        heading = None if fenced else re.match(r"#+ (.*)", line)
        if heading:
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
            found.add(re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", words)))
    return found


def without_code(text):
    kept = "\n".join("" if fenced else line for _, line, fenced in lines_of(text))
    return re.sub(r"`[^`]*`", "``", kept)


def problems_of_lines(name, text):
    headings = set()
    table = 0
    for number, line, fenced in lines_of(text):
        if fenced:
            continue
        table = table + 1 if line.startswith("|") else 0
        if table == 2 and not re.fullmatch(r"\|(?:\s*:?-+:?\s*\|)+", line):
            yield f"{name}:{number}: rows of a table without a heading"
        excepted = table or line.startswith(("#", "<!--", "![")) or " " not in line.strip()
        if len(line) > MAX_COLUMNS and not excepted:
            yield f"{name}:{number}: {len(line)} columns (at most {MAX_COLUMNS})"
        if line != line.rstrip():
            yield f"{name}:{number}: blanks at the end"
        if line.startswith("#"):
            if line in headings:
                yield f"{name}:{number}: the heading stands twice: {line}"
            headings.add(line)
    titles = [line for _, line, fenced in lines_of(text) if line.startswith("# ") and not fenced]
    if len(titles) != 1 and not text.startswith("---"):
        yield f"{name}: {len(titles)} titles (# …), expected one"


def problems_of_links(root, page, texts):
    name = page.relative_to(root)
    for target in LINK.findall(without_code(texts[page]).replace("\n", " ")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = page if not path else pathlib.Path(os.path.normpath(page.parent / path))
        if not found.exists():
            yield f"{name}: there is no '{target}'"
        elif anchor and anchor not in anchors(found.read_text(encoding="utf-8")):
            yield f"{name}: '{target}': there is no such heading"
        # The site holds docs/ alone.
        elif (root / "docs") in page.parents and (root / "docs") not in found.parents:
            yield f"{name}: '{target}' leads out of docs/: name it as `code`"


def problems_of_paths(root, page, texts):
    name = str(page.relative_to(root))
    if name in HISTORY:
        return
    for path in PATH.findall(texts[page]):
        if not (root / path).exists() and not list((root / path).parent.glob(pathlib.Path(path).name + ".*")):
            yield f"{name}: there is no `{path}`"


def problems_of_switches(name, text):
    """On the command line they take no value that stands apart."""
    for switch in SWITCH.findall(text):
        yield f"{name}: '{switch}' is on as it stands, and off as '--no-{switch[2:]}'"


def problems_of_sources(root):
    for top in SOURCES:
        for path in sorted((root / top).rglob("*")):
            if not path.is_file() or (path.suffix not in SUFFIXES and path.parent.name != "scripts"):
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                for named in NAMED.findall(line):
                    if not (root / named).exists():
                        yield f"{path.relative_to(root)}:{number}: there is no '{named}'"


def unreached(root, texts):
    start = root / "docs/README.md"
    seen, todo = {start}, [start]
    while todo:
        page = todo.pop()
        for target in LINK.findall(without_code(texts[page]).replace("\n", " ")):
            found = pathlib.Path(os.path.normpath(page.parent / target.partition("#")[0]))
            if found in texts and found not in seen:
                seen.add(found)
                todo.append(found)
    for page in texts:
        if (root / "docs") in page.parents and page not in seen:
            yield f"{page.relative_to(root)}: nothing leads here from docs/README.md"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    texts = {page: page.read_text(encoding="utf-8") for page in pages(root)}
    problems = [*unreached(root, texts), *problems_of_sources(root)]
    for page, text in texts.items():
        problems += problems_of_lines(page.relative_to(root), text)
        problems += problems_of_links(root, page, texts)
        problems += problems_of_paths(root, page, texts)
        problems += problems_of_switches(page.relative_to(root), text)
    for problem in problems:
        print(problem)
    print(f"{len(texts)} pages, {len(problems)} problems")
    return 1 if problems or len(texts) < 30 else 0


if __name__ == "__main__":
    sys.exit(main())
