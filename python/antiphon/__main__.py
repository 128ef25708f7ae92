"""The program: `antiphon …` or `python -m antiphon …`. `train --log-to` knows services that have packages of Python, as
well."""

import os
import pathlib
import shutil
import sys

from . import _beside


def main() -> None:
    """Runs the program that came with the package, or the one on PATH."""
    inside = pathlib.Path(__file__).parent / "bin" / "antiphon"
    program = str(inside) if inside.is_file() else shutil.which("antiphon", path=_path_without_script())
    if program is None:
        sys.exit("antiphon: error: the program is not in this package, nor on PATH; the package antiphon has it")
    arguments, services, out = _beside.divided(sys.argv[1:])
    if services:
        sys.exit(_beside.run(program, arguments, services, out))
    os.execv(program, [program, *sys.argv[1:]])


def _path_without_script() -> str:
    # This package's own script has the same name, and so may links to it.
    script = os.path.realpath(sys.argv[0])
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders
                           if os.path.realpath(os.path.join(folder, "antiphon")) != script)


if __name__ == "__main__":
    main()
