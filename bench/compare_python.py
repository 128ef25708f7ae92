"""What `Recognizer.recognize` of the Python package costs over `antiphon decode`: processor seconds for the same files, one
after another in one thread, in alternation. Start and loading of either are left out: what counts is the difference
between all files and half of them.

Usage: compare_python.py PROGRAM [ROUNDS]       (with the package antiphon on PYTHONPATH)
"""

import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/program"))
import small_system  # noqa: E402

NETWORK = "".join('[[network.layer]]\ntype = "affine"\ndim = 512\n[[network.layer]]\ntype = "relu"\n' for _ in range(3))
FILES, WORDS = 40, 40
LOOP = """
import sys
import antiphon
recognizer = antiphon.Recognizer(sys.argv[1], sys.argv[2], threads=1)
for path in sys.argv[3:]:
    recognizer.recognize(path)
"""


def seconds(command):
    """Of the processor, in user and system mode."""
    process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"failed: {command}")
    return usage.ru_utime + usage.ru_stime


def main():
    small_system.PROGRAM = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        small_system.NETWORK = NETWORK + '[[network.layer]]\ntype = "affine"\n'
        small_system.make_system(root)
        random_ = random.Random(1)
        folders = [root / "half", root / "all"]
        for folder in folders:
            folder.mkdir()
        for number in range(FILES):
            sound = small_system.wav_bytes(small_system.speech(random_.choices("AB", k=WORDS), random_))
            for folder in folders[number % 2:]:
                (folder / f"{number:02}.wav").write_bytes(sound)
        length = sum((path.stat().st_size - 44) / 2 / small_system.RATE for path in folders[1].iterdir())
        model, graph = root / "net/model.safetensors", root / "graph"
        ways = {"antiphon decode": lambda folder: [sys.argv[1], "decode", "--model", model, "--graph", graph, "--threads",
                                                   1, "--no-lattices", folder, root / "out"],
                "Python": lambda folder: [sys.executable, "-c", LOOP, model, graph, *sorted(folder.iterdir())]}
        costs = {name: [] for name in ways}
        for _ in range(rounds):
            for name, command in ways.items():
                half, whole = (seconds(command(folder)) for folder in folders)
                costs[name].append(whole - half)
        for name, values in costs.items():
            print(f"{name}: {statistics.median(values):.3f} s (median of {rounds}, {min(values):.3f} … {max(values):.3f}) "
                  f"for half of {length:.0f} s of speech")
        ratio = statistics.median(costs["Python"]) / statistics.median(costs["antiphon decode"])
        print(f"Python costs {100 * (ratio - 1):+.1f} % over the program")


if __name__ == "__main__":
    main()
