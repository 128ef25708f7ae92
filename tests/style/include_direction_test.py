"""Reads the #include lines and fails on an edge between folders that the design does not allow, or on a cycle of files.

Usage: include_direction_test.py SOURCE-TREE
"""

import pathlib
import re
import sys

# Folder -> folders that it may include; what those may include, it may include too.
ALLOWED = {
    "base": [],
    "math": ["base"],
    "device": ["base"],
    "kernels": ["math", "device"],
    "feat": ["kernels"],
    "hmm": ["kernels"],
    "nn": ["kernels"],
    "data": ["feat", "hmm"],
    "optim": ["nn"],
    "comm": ["base", "device"],
    "plan": ["comm"],
    "parallel": ["comm", "plan", "optim", "nn"],
    "compress": ["nn", "optim"],
    "adapt": ["nn", "optim", "hmm"],
    "infer": ["nn"],
    "decode": ["math"],
    "g2p": ["decode", "hmm"],
    "score": ["base"],
    "written": ["math"],
    "report": ["base", "score"],
    "recipe": ["base"],
    "chain": ["hmm", "data", "nn"],
    "train": ["data", "chain", "parallel", "infer", "decode", "g2p", "score", "report", "compress",
              "adapt", "comm", "optim"],
    "vad": ["feat", "infer"],
    "pipeline": ["train", "vad", "written"],
    "api": ["pipeline"],
    "serve": ["api"],
}
# Single files that a folder may include beyond that (docs/decisions/0001).
ALSO = {
    "written": [r"hmm/graph/openfst\.h"],
    "decode": [r"hmm/graph/.*", r"hmm/(hmm_model|lexicon|topology|transition_model|tree|phones|context)\.h"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def closure(folder, seen=None):
    seen = set() if seen is None else seen
    for below in ALLOWED.get(folder, []):
        if below not in seen:
            seen.add(below)
            closure(below, seen)
    return seen


def includes(path):
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def bad_edges(source):
    bad = []
    for path in sorted(source.rglob("*")):
        if path.suffix not in (".h", ".cc", ".cu", ".inc"):
            continue
        folder = path.relative_to(source).parts[0]
        if folder not in ALLOWED:
            bad.append(f"src/{folder} is not in the design's list of folders")
            continue
        for include in includes(path):
            target = include.split("/")[0]
            if target in (folder, "antiphon") or not (source / include).exists():
                continue
            if any(re.fullmatch(pattern, include) for pattern in ALSO.get(folder, [])):
                continue
            if target not in closure(folder):
                allowed = ", ".join(sorted(closure(folder))) or "nothing"
                bad.append(f"{path.relative_to(source)} includes {include}; {folder} may include: {allowed}")
    return bad


def cycles(source):
    graph = {}
    for path in source.rglob("*.h"):
        name = str(path.relative_to(source))
        graph[name] = [i for i in includes(path) if (source / i).exists()]
    found, state = [], {}

    def visit(name, trail):
        if state.get(name) == "done":
            return
        if name in trail:
            found.append(" -> ".join(trail[trail.index(name):] + [name]))
            return
        for target in graph.get(name, []):
            visit(target, trail + [name])
        state[name] = "done"

    for name in sorted(graph):
        visit(name, [])
    return found


def public_headers(root):
    """include/antiphon stands alone: no library headers, no macros (but the mark of what a library shows), no conditional
    compilation (but for C's own)."""
    bad = []
    for path in sorted((root / "include").rglob("*.h")):
        text = path.read_text(encoding="utf-8")
        for include in includes(path):
            if not include.startswith("antiphon/"):
                bad.append(f"{path.relative_to(root)} includes {include}, which users do not have")
        if path.name == "antiphon.h":  # C, for C++ too
            text = text.replace("#ifdef __cplusplus", "")
        if path.name == "export.h":
            text = text.replace("#define ANTIPHON_API ", "")
        for match in re.finditer(r"^\s*#\s*(if|ifdef|ifndef|define)\b.*$", text, re.M):
            bad.append(f"{path.relative_to(root)}: '{match.group().strip()}' in a public header")
    return bad


def main():
    root = pathlib.Path(sys.argv[1])
    problems = bad_edges(root / "src") + ["cycle: " + c for c in cycles(root / "src")] + public_headers(root)
    for problem in problems:
        print(problem)
    if not (root / "src/base/error.h").exists():
        problems.append("no sources found")
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
