#!/usr/bin/env python3
"""One lexicon from several: their lines in order, each once."""
import argparse

import corpus


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lexica", nargs="+", required=True)
    parser.add_argument("--out", required=True, help="file to write")
    options = parser.parse_args()
    lines = dict.fromkeys(line for path in options.lexica for line in corpus.read_lines(path) if line.strip())
    corpus.write_lines(options.out, lines)
    print(f"join_lexica: {len(lines)} pronunciations")


if __name__ == "__main__":
    main()
