#!/usr/bin/env python3
"""Puts data directories together: OUT has the utterances of all, with absolute paths."""
import argparse
import os
import sys

import corpus

TABLES = ("wav.scp", "text", "utt2spk", "segments")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--upper", action="store_true", help="write words in capital letters")
    options = parser.parse_args()
    combined = {name: {} for name in TABLES}
    for data in options.data:
        tables = {name: corpus.read_table(os.path.join(data, name)) for name in TABLES}
        if tables["segments"]:
            sys.exit(f"combine: '{data}' has segments; only directories with a file for each utterance are put together")
        tables["wav.scp"] = {name: corpus.absolute_path(path, data) for name, path in tables["wav.scp"].items()}
        if options.upper:
            tables["text"] = {name: words.upper() for name, words in tables["text"].items()}
        for name in TABLES:
            if twice := combined[name].keys() & tables[name].keys():
                sys.exit(f"combine: '{min(twice)}' is in '{data}/{name}' and in a directory before it")
            combined[name].update(tables[name])
    speakers = {}
    for utterance, speaker in sorted(combined["utt2spk"].items()):
        speakers.setdefault(speaker, []).append(utterance)
    combined["spk2utt"] = {speaker: " ".join(utterances) for speaker, utterances in speakers.items()}
    for name, table in combined.items():
        if name == "segments":
            continue
        corpus.write_lines(os.path.join(options.out, name), [f"{key} {value}" for key, value in sorted(table.items())])
    print(f"combine: {len(combined['wav.scp'])} utterances by {len(speakers)} speakers")


if __name__ == "__main__":
    main()
