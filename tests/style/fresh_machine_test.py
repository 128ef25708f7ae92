"""What a machine that nobody has seen needs: packages that are named, headers that are included, no warning that ends a build.

Usage: fresh_machine_test.py SOURCE-TREE
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# What a source has to include for itself: newer standard libraries no longer bring it along by chance.
HEADERS = {
    "algorithm": r"std::(?:sort|stable_sort|clamp|find|find_if|any_of|all_of|none_of|count|count_if|copy_if|transform|reverse"
                 r"|upper_bound|binary_search|equal_range|max_element|min_element|minmax_element|nth_element|partial_sort"
                 r"|remove|remove_if|unique|replace|replace_if|rotate|for_each|search|is_sorted|generate|push_heap"
                 r"|pop_heap|next_permutation)\s*\(",
    "numeric": r"std::(?:accumulate|iota|inner_product|partial_sum|gcd|lcm|reduce)\s*\(",
    "cmath": r"std::(?:sqrt|exp|log|log2|log10|log1p|expm1|pow|floor|ceil|round|lround|llround|isfinite|isnan|isinf|tanh)\s*\(",
    "cstring": r"std::(?:memcpy|memset|memcmp|memmove|strlen|strerror)\s*\(",
    "limits": r"std::numeric_limits",
    "optional": r"std::optional<",
    "set": r"std::set<",
    "map": r"std::map<",
    "array": r"std::array<",
}
INCLUDE = re.compile(r'#include\s+[<"]([^>"]+)[>"]')


def problems_of_headers(root):
    files = {path.relative_to(root): path.read_text(encoding="utf-8")
             for folder in ("src", "apps", "include") for path in (root / folder).rglob("*") if path.suffix in (".cc", ".h")}
    known = {}

    def included(name):
        if name not in known:
            known[name] = set()  # for circles
            for header in INCLUDE.findall(files[name]):
                inside = [p for p in (pathlib.Path("src") / header, pathlib.Path("include") / header,
                                      pathlib.Path("apps/antiphon") / header) if p in files]
                known[name] |= included(inside[0]) if inside else {header}
        return known[name]

    for name, text in sorted(files.items()):
        code = re.sub(r'//[^\n]*|"(?:\\.|[^"\\\n])*"', "", text)
        for header, use in HEADERS.items():
            if re.search(use, code) and header not in included(name):
                yield f"{name}: uses what <{header}> declares without including it"


def problems_of_packages(root):
    setup = (root / "scripts/setup").read_text(encoding="utf-8")
    build = set(re.search(r"^build=\(([^)]*)\)", setup, re.MULTILINE).group(1).split())
    dependencies = (root / "cmake/AntiphonDependencies.cmake").read_text(encoding="utf-8")
    needed = {name for names in re.findall(r'PACKAGE "?([a-z0-9 .-]+?)"?\)', dependencies) for name in names.split()}
    for package in sorted((needed | {"python3", "cmake", "ninja-build"}) - build):
        yield f"scripts/setup: the group build lacks {package}"


def problems_of_warnings(root):
    settings = (root / "cmake/AntiphonSettings.cmake").read_text(encoding="utf-8")
    if settings.count("-Werror") != settings.count("$<$<BOOL:${ANTIPHON_WERROR}>:-Werror>"):
        yield "cmake/AntiphonSettings.cmake: -Werror without ANTIPHON_WERROR"
    if not re.search(r"option\(ANTIPHON_WERROR .* OFF\)", settings):
        yield "cmake/AntiphonSettings.cmake: ANTIPHON_WERROR must be off unless asked for"
    presets = json.loads((root / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]
    for preset in presets:
        if preset["name"] in ("base", "release") and "ANTIPHON_WERROR" in preset.get("cacheVariables", {}):
            yield f"CMakePresets.json: {preset['name']} is a user's preset, and makes warnings errors"


# What stands in for a machine: a compiler of a version, a cmake that says how it was called, and nothing that takes time.
STAND_INS = {
    "bin/c++": "echo '#define __GNUC__ '$GCC",
    "bin/cmake": 'echo "$*" >>"$CALLS"',
    "bin/ninja": "true",
    "bin/ctest": "echo 100% tests passed",
    "scripts/setup": "true",
    "scripts/venv": "true",
    "scripts/lint": "true",
    "scripts/sanitize": "true",
}


def problems_of_scripts(root):
    """Which command makes warnings errors with which compiler, as cmake is told."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file in ("scripts/common.sh", "scripts/build", "scripts/test", ".ci/run"):
            (folder / file).parent.mkdir(exist_ok=True)
            shutil.copy(root / file, folder / file)
        for file, command in STAND_INS.items():
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_text(f"#!/bin/bash\n{command}\n")
            (folder / file).chmod(0o755)
        (folder / "build/release").mkdir(parents=True)
        calls = folder / "calls"
        clean = {name: value for name, value in os.environ.items() if name not in ("CI", "CXX", "ANTIPHON_WERROR")}
        for command, gcc, more, expected in (
            ("scripts/test --fast", 12, {}, "ON"),
            ("scripts/test --fast", 14, {}, "OFF"),
            ("scripts/test --fast", 14, {"CI": "true"}, "ON"),
            ("scripts/test --fast", 14, {"ANTIPHON_WERROR": "ON"}, "ON"),
            (".ci/run", 14, {}, "ON"),
            ("scripts/build", 12, {}, "OFF"),  # also where a test left ON in the build folder
            ("scripts/build", 12, {"ANTIPHON_WERROR": "ON"}, "ON"),
            ("scripts/build debug", 12, {}, None),  # the preset's
        ):
            calls.unlink(missing_ok=True)
            path = f"{folder / 'bin'}:{os.environ['PATH']}"
            result = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True,
                                    env={**clean, **more, "PATH": path, "CALLS": str(calls), "GCC": str(gcc)})
            said = re.findall(r"-DANTIPHON_WERROR=(\w+)", calls.read_text() if calls.exists() else "")
            if result.returncode != 0 or said != ([expected] if expected else []):
                yield (f"{command} {more} with gcc {gcc}: ANTIPHON_WERROR must be {expected}, is {said}; status "
                       f"{result.returncode} {result.stderr}")


def main():
    root = pathlib.Path(sys.argv[1])
    problems = [*problems_of_headers(root), *problems_of_packages(root), *problems_of_warnings(root), *problems_of_scripts(root)]
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
