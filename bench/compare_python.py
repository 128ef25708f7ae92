"""What `Recognizer.recognize` of the Python package costs: processor seconds for the same files in one thread.

First over the library on which the program recognises, called by its C interface from the same process, call by call in
alternation; that tells small differences on a machine that others use, too. Then over `antiphon decode`, in processes of
their own, where what counts is the difference between all files and half of them: start and loading are left out.

Usage: compare_python.py PROGRAM [ROUNDS]       (with the package antiphon on PYTHONPATH; 0: the first part alone)
"""

import ctypes
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import antiphon

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/program"))
import small_system  # noqa: E402

NETWORK = "".join('[[network.layer]]\ntype = "affine"\ndim = 512\n[[network.layer]]\ntype = "relu"\n' for _ in range(3))
FILES, WORDS = 12, 20
SHORT_FILES, CALLS = 4, 100  # in one process: files of one word, where a call costs most beside the work
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


def c_call(library, model, graph):
    """What recognises a file by the C interface, up to its result as JSON."""
    c = ctypes.CDLL(str(library))
    for name in ("antiphon_settings_new", "antiphon_recognizer_new", "antiphon_result_new"):
        getattr(c, name).restype = ctypes.c_void_p
    c.antiphon_result_json.restype = ctypes.c_char_p
    settings = ctypes.c_void_p(c.antiphon_settings_new())
    c.antiphon_settings_set(settings, b"threads", b"1")
    recognizer = ctypes.c_void_p(c.antiphon_recognizer_new(os.fsencode(model), os.fsencode(graph), settings))
    result = ctypes.c_void_p(c.antiphon_result_new())

    def recognize(path):
        if c.antiphon_recognize_file(recognizer, os.fsencode(path), -1, result) != 0:
            sys.exit(f"the C interface cannot recognise {path}")
        return c.antiphon_result_json(result)

    return recognize


def compare_calls(library, model, graph, files):
    calls = {"C": c_call(library, model, graph), "Python": antiphon.Recognizer(model, graph, threads=1).recognize}
    costs = {name: [[] for _ in files] for name in calls}
    for _ in range(CALLS):
        for number, path in enumerate(files):
            for name, call in calls.items():
                before = time.process_time()
                call(path)
                costs[name][number].append(time.process_time() - before)
    for what, chosen in (("medians", statistics.median), ("least", min)):
        c, python = (sum(chosen(values) for values in costs[name]) for name in ("C", "Python"))
        print(f"{what} of {CALLS} calls: C {c:.4f} s, Python {python:.4f} s for {len(files)} files: {100 * (python / c - 1):+.2f} %",
              flush=True)


def main():
    small_system.PROGRAM = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        small_system.NETWORK = NETWORK + '[[network.layer]]\ntype = "affine"\n'
        small_system.make_system(root)
        random_ = random.Random(1)
        folders = [root / "half", root / "all"]
        for folder in (root / "short", *folders):
            folder.mkdir()
        for number in range(SHORT_FILES):
            sound = small_system.wav_bytes(small_system.speech(random_.choices("AB"), random_))
            (root / f"short/{number}.wav").write_bytes(sound)
        for number in range(FILES):
            sound = small_system.wav_bytes(small_system.speech(random_.choices("AB", k=WORDS), random_))
            for folder in folders[number % 2:]:
                (folder / f"{number:02}.wav").write_bytes(sound)
        length = sum((path.stat().st_size - 44) / 2 / small_system.RATE for path in folders[1].iterdir())
        model, graph = root / "net/model.safetensors", root / "graph"
        compare_calls(pathlib.Path(sys.argv[1]).resolve().parent / "libantiphon.so", model, graph,
                      sorted((root / "short").iterdir()))
        if rounds == 0:
            return
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
