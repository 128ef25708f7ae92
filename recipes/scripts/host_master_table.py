#!/usr/bin/env python3
"""Word error rates on clean and noisy speech, and minutes per ten hours of training speech, of host_master_table.toml."""
import argparse
import json
import os

import corpus

FRAMES_OF_TEN_HOURS = 10 * 3600 * 100
SYSTEMS = ("ml", "bmmi", "sgd", "asgd")


def error_rate(exp, system, test):
    """Percent, with its confidence interval."""
    with open(os.path.join(exp, f"decode-{system}-{test}", "summary.json"), encoding="utf-8") as file:
        score = json.load(file)["score"]
    interval = score["interval"]
    return f"{100 * score['error_rate']:.2f} ({100 * interval['low']:.1f} … {100 * interval['high']:.1f})"


def minutes(exp, system):
    """Of a pass over ten hours of speech, held-out frames and the model's upkeep included."""
    for line in corpus.read_lines(os.path.join(exp, system, "metrics.jsonl")):
        record = json.loads(line)
        if record["kind"] == "finish":
            finish = record
    return f"{finish['seconds'] / 60 * FRAMES_OF_TEN_HOURS / finish['frames']:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exp", required=True)
    parser.add_argument("--slaves", type=int, required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    names = dict(zip(SYSTEMS, ("mixtures, maximum likelihood", "mixtures, boosted MMI", "network, SGD",
                               f"network, ASGD, {options.slaves} slaves")))
    lines = ["| | clean: WER % | noisy: WER % | minutes per 10 hours |", "|---|---|---|---|"]
    for system, name in names.items():
        time = minutes(options.exp, system) if system in ("sgd", "asgd") else ""
        clean, noisy = (error_rate(options.exp, system, test) for test in ("clean", "noisy"))
        lines.append(f"| {name} | {clean} | {noisy} | {time} |")
    corpus.write_lines(options.out, lines)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
