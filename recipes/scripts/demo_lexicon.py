#!/usr/bin/env python3
"""Lexicon of the demo: CMUdict (39 phones, from Debian's pocketsphinx-en-us), completed by flite's letter-to-sound rules.

Writes OUT in Kaldi's form, WORD PHONE PHONE …, several lines for several pronunciations, silence and unknown words first.
"""
import argparse
import subprocess

import corpus

FLITE_PHONES = {"ax": "AH", "axr": "ER", "ix": "IH", "el": "AH L", "em": "AH M", "en": "AH N", "dx": "T", "nx": "N"}


def by_rule(word):
    output = subprocess.run(["flite", "-voice", "slt", "-ps", "-t", word, "-o", "none"], check=True, capture_output=True,
                            text=True).stdout
    return " ".join(FLITE_PHONES.get(p, p.upper()) for p in output.split() if p not in ("pau", "ssil"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocabulary", nargs="+", required=True, help="files of words, one a line")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    words = sorted({word for file in options.vocabulary for word in corpus.read_lines(file)})
    known = corpus.pronunciations_of(set(words))
    lines = ["<SIL> SIL", "<UNK> SPN"]
    for word in words:
        lines += [f"{word} {phones}" for phones in known.get(word) or [by_rule(word)]]
    corpus.write_lines(options.out, lines)
    print(f"demo_lexicon: {len(words)} words, {len(words) - len(known)} of them by rule: "
          + " ".join(w for w in words if w not in known))


if __name__ == "__main__":
    main()
