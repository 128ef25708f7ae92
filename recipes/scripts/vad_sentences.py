#!/usr/bin/env python3
"""Sentences for synthetic speech: words of CMUdict (Debian's pocketsphinx-en-us) drawn at random, so that every phone
stands beside every other. Writes OUT/spoken.txt and OUT/lexicon.txt.
"""
import argparse
import os
import random
import re
import sys

import corpus

CMUDICT = "/usr/share/pocketsphinx/model/en-us/cmudict-en-us.dict"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--sentences", type=int, default=900)
    parser.add_argument("--words", type=int, default=1500, help="different words to draw from")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not os.path.exists(CMUDICT):
        sys.exit(f"vad_sentences: '{CMUDICT}' is missing; install the Debian package pocketsphinx-en-us")
    pronunciations = {}
    with open(CMUDICT, encoding="utf-8") as file:
        for line in file:
            word, *phones = line.split()
            word = re.sub(r"\(\d+\)$", "", word)
            if word.isalpha() and 2 < len(word) < 9 and len(phones) > 1:
                pronunciations.setdefault(word, []).append(" ".join(phones))
    random_ = random.Random(options.seed)
    words = random_.sample(sorted(pronunciations), options.words)
    corpus.write_lines(os.path.join(options.out, "spoken.txt"),
                       [" ".join(random_.choices(words, k=random_.randint(2, 9))) for _ in range(options.sentences)])
    corpus.write_lines(os.path.join(options.out, "lexicon.txt"), ["<SIL> SIL", "<UNK> SPN"]
                       + [f"{word} {phones}" for word in sorted(words) for phones in pronunciations[word]])
    print(f"vad_sentences: {options.sentences} of {options.words} words")


if __name__ == "__main__":
    main()
