#!/usr/bin/env python3
"""Puts data directories together: OUT has the utterances of all, with absolute paths and words in capital letters."""
import argparse
import os
import sys

TABLES = ("wav.scp", "text", "utt2spk", "segments")


def read_table(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return dict((line.rstrip("\n").split(None, 1) + [""])[:2] for line in file if line.strip())


def resolve(reference, data):
    """The path of wav.scp as an absolute one: it is looked up from the folders above, as antiphon does."""
    if reference.endswith("|") or os.path.isabs(reference):
        return reference
    folder = os.path.abspath(data)
    while not os.path.exists(os.path.join(folder, reference)):
        if os.path.dirname(folder) == folder:
            sys.exit(f"combine: '{reference}' of '{data}/wav.scp' is nowhere above that folder")
        folder = os.path.dirname(folder)
    return os.path.join(folder, reference)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    combined = {name: {} for name in TABLES}
    for data in options.data:
        tables = {name: read_table(os.path.join(data, name)) for name in TABLES}
        if tables["segments"]:
            sys.exit(f"combine: '{data}' has segments; only directories with a file for each utterance are put together")
        tables["wav.scp"] = {name: resolve(reference, data) for name, reference in tables["wav.scp"].items()}
        tables["text"] = {name: words.upper() for name, words in tables["text"].items()}
        for name in TABLES:
            if twice := combined[name].keys() & tables[name].keys():
                sys.exit(f"combine: '{min(twice)}' is in '{data}/{name}' and in a directory before it")
            combined[name].update(tables[name])
    os.makedirs(options.out, exist_ok=True)
    speakers = {}
    for utterance, speaker in sorted(combined["utt2spk"].items()):
        speakers.setdefault(speaker, []).append(utterance)
    combined["spk2utt"] = {speaker: " ".join(utterances) for speaker, utterances in speakers.items()}
    for name, table in combined.items():
        if name == "segments":
            continue
        path = os.path.join(options.out, name)
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            file.writelines(f"{key} {value}\n" for key, value in sorted(table.items()))
        os.replace(path + ".tmp", path)
    print(f"combine: {len(combined['wav.scp'])} utterances by {len(speakers)} speakers")


if __name__ == "__main__":
    main()
