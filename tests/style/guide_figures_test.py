"""The figures that the pages on parallel training name are those of the program: defaults of options, and constants.

Usage: guide_figures_test.py SOURCE-TREE
"""

import pathlib
import re
import sys

PAGES = ("clusters.md", "parallel.md", "simulation.md")
ROW = re.compile(r"^\| `(?:--)?([a-z][\w.-]*)` \|[^|]*\| `?([^|`]*)`? \|", re.MULTILINE)
# "`data.cache-limit-gb` (50)" and "(`data.fetch-stall-s`, 30)".
SAID = re.compile(r"`([a-z][\w.-]*)`(?: \(|, )(\d[\d.]*)(?=[);])")

# Of each page: what it says, where the program has it, and how.
CONSTANTS = [
    ("clusters.md", "`decode` wait two hours", "apps/antiphon/processes.cc", r"kDeadlineSeconds = 7200;"),
    ("clusters.md", "(every 16 steps; `asgd` at every minibatch,", "src/train/rendezvous.cc", r"kStepsBetweenLooks = 16;"),
    ("clusters.md", "at most four times a second", "src/train/workers_request.cc", r"milliseconds kBetweenLooks\{250\}"),
    ("clusters.md", "waits 5 s for it", "src/train/trainer.cc", r"kLockAttempts = 50;.*milliseconds kBetweenLockAttempts\{100\}"),
    ("clusters.md", "pauses of 0.25 s, 0.5 s … 30 s", "src/data/remote_folder.cc",
     r"kFirstPauseSeconds = 0\.25;.*kLongestPauseSeconds = 30;.*kFirstPauseSeconds \* std::exp2\(in_vain - 1\)"),
    ("clusters.md", "in pieces of 64 kB", "src/comm/mpi/piece_rule.h", r"kPieceBytes = 64000;"),
    ("parallel.md", "Every 16 updates the ranks compare", "src/parallel/striped_network.cc", r"kUpdatesPerComparison = 16;"),
    ("parallel.md", "`auto` is linear up to 1024 frames", "src/parallel/rate_scaling.cc", r"kFramesOfLinearSteps = 1024;"),
    ("simulation.md", "exchanges of more than 64 ranks as a barrier", "src/plan/schedules.h", r"kMostInMessages = 64;"),
    ("simulation.md", "Among plans within 10 % of the best", "src/plan/planner.cc", r"kNearlyAsGood = 1\.1;"),
    ("simulation.md", "fewer than 20 steps or exchanges", "src/plan/planner.cc", r"kFewestSteps = 20;"),
]


def one_line(text):
    return re.sub(r"\s+", " ", text)


def defaults(reference):
    """Of each key, by its name with and without its tables."""
    found = {}
    for name, default in ROW.findall(reference):
        parts = name.split(".")
        for first in range(len(parts)):
            found.setdefault(".".join(parts[first:]), set()).add(default)
    return found


def same(said, default):
    try:
        return float(said.rstrip(".")) == float(default)
    except ValueError:
        return False


def problems(root):
    known = defaults((root / "docs/reference/options.md").read_text())
    for page in PAGES:
        text = one_line((root / "docs/guides" / page).read_text())
        for key, number in SAID.findall(text):
            if key in known and not any(same(number, default) for default in known[key]):
                yield f"{page}: `{key}` ({number}), but the program's default is {', '.join(sorted(known[key]))}"
        for its_page, words, place, pattern in CONSTANTS:
            if its_page != page:
                continue
            if words not in text:
                yield f"{page} does not say '{words}' any more"
            if not re.search(pattern, one_line((root / place).read_text())):
                yield f"{page} says '{words}', but '{pattern}' is not in {place}"


def main():
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found))
    print(f"{len(PAGES)} pages, {len(found)} problems")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
