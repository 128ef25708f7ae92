"""Every shipped recipe, from an empty folder: what a step needs is made by an earlier one, or belongs to the corpus.

Usage: recipe_inputs_test.py SOURCE-TREE PROGRAM. Nothing is run but `--dry-run`, over a corpus of empty folders.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

MISSING = re.compile(r"step '(.+)':\s+its input '(.+)' does not exist")
MOST_FILES = 100  # of a corpus


def dry_run(program, recipe, folder, settings):
    sets = [word for setting in settings for word in ("--set", setting)]
    return subprocess.run([program, "run", recipe, "--dry-run", *sets], cwd=folder, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=100, check=False)


def problem(program, recipe, folder, settings):
    """None, or what is wrong. Makes the corpus's files, one after the other."""
    for _ in range(MOST_FILES):
        result = dry_run(program, recipe, folder, settings)
        if result.returncode == 0:
            return None
        missing = MISSING.search(result.stderr)
        if not missing:
            return result.stderr
        path = folder / missing[2]
        if folder / "exp" in path.parents:
            return f"step '{missing[1]}' needs '{missing[2]}', which no earlier step makes"
        path.mkdir(parents=True)  # a file or a folder: that it is there is enough
    return "asks for more and more files"


def main(source, program):
    recipes = sorted((pathlib.Path(source) / "recipes").glob("*.toml"))
    assert len(recipes) > 10, recipes
    problems = []
    for recipe in recipes:
        switches = [name for name in ("vad", "on_the_fly") if f"\n{name} = " in recipe.read_text()]
        for more in ([], *([f"{name}=true"] for name in switches)):
            with tempfile.TemporaryDirectory() as name:
                found = problem(program, recipe, pathlib.Path(name), ["exp=exp", *more])
            if found:
                problems.append(f"{recipe.name} {' '.join(more)}: {found}")
    sys.exit("\n".join(problems) or None)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
