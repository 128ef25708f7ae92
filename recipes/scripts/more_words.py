#!/usr/bin/env python3
"""More words for a recogniser of English: the most frequent ones that its lexicon lacks, up to --words in all.

Frequencies are those of the Python package wordfreq, or of a file of lines WORD FREQUENCY. Writes into OUT: known.txt,
the words that CMUdict pronounces (39 phones, from Debian's pocketsphinx-en-us), as lines of a lexicon, after those of the
lexicon itself; unknown.txt, the others; unigrams.arpa, how probable each is among them.
"""
import argparse
import math
import os
import re
import sys

import corpus

WORD = re.compile(r"[a-z]+('[a-z]+)*")
SENTENCE_END = 0.05  # a sentence of twenty words


def frequencies(path):
    """{word in small letters: frequency}"""
    if path:
        return {word.lower(): float(rest) for word, rest in corpus.read_table(path).items()}
    try:
        import wordfreq
    except ImportError:
        sys.exit("more_words: there is no Python package wordfreq; install it where python3 finds it (python3 -m venv "
                 "words; words/bin/pip install wordfreq; PATH=$PWD/words/bin:$PATH antiphon run …), or name a file of "
                 "lines WORD FREQUENCY (--set frequencies=FILE)")
    return wordfreq.get_frequency_dict("en", wordlist="large")


def unigrams(chosen):
    """Lines of an ARPA file."""
    total = sum(chosen.values())
    probabilities = {word: (1 - SENTENCE_END) * frequency / total for word, frequency in chosen.items()}
    lines = ["\\data\\", f"ngram 1={len(chosen) + 2}", "", "\\1-grams:", "-99 <s>", f"{math.log10(SENTENCE_END):.4f} </s>"]
    lines += [f"{math.log10(p):.4f} {word}" for word, p in sorted(probabilities.items())]
    return [*lines, "", "\\end\\"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lexicon", required=True)
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--words", type=int, default=200000, help="in all, those of the lexicon included")
    parser.add_argument("--dictionary", default=corpus.CMUDICT, help="words in small letters and their phones, as CMUdict's")
    parser.add_argument("--frequencies", default="", help="file of lines WORD FREQUENCY; empty: the package wordfreq")
    options = parser.parse_args()
    lexicon = [line for line in corpus.read_lines(options.lexicon) if line.strip()]
    words = {line.split()[0] for line in lexicon}
    cased = str.upper if sum(w.isupper() for w in words) > len(words) / 2 else str.lower
    have = {word.lower() for word in words}
    others = [(-f, w) for w, f in frequencies(options.frequencies).items() if f > 0 and w not in have and WORD.fullmatch(w)]
    chosen = {w: -f for f, w in sorted(others)[:max(0, options.words - len(have))]}
    if not chosen:
        sys.exit(f"more_words: the lexicon has {len(have)} words and lacks none of the {options.words} that are wanted")
    said = corpus.pronunciations_of(chosen.keys(), options.dictionary)
    known = [f"{cased(w)} {phones}" for w in sorted(said) for phones in said[w]]
    corpus.write_lines(os.path.join(options.out, "known.txt"), lexicon + known)
    corpus.write_lines(os.path.join(options.out, "unknown.txt"), [cased(w) for w in sorted(chosen) if w not in said])
    corpus.write_lines(os.path.join(options.out, "unigrams.arpa"), unigrams({cased(w): f for w, f in chosen.items()}))
    print(f"more_words: {len(chosen)} words, the dictionary pronounces {len(said)} of them")


if __name__ == "__main__":
    main()
