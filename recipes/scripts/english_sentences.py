#!/usr/bin/env python3
"""Sentences for synthetic speech beside a corpus of read speech: two thirds are pieces of its transcripts, so that words
stand as they do in sentences; one third are words of the lexicon drawn at random, so that all of them are heard.

Writes OUT, one sentence a line, in small letters, which synthesisers do not spell out.
"""
import argparse
import random

import corpus


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True, help="Kaldi text file of the transcripts")
    parser.add_argument("--lexicon", required=True)
    parser.add_argument("--out", required=True, help="file to write")
    parser.add_argument("--sentences", type=int, default=2400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random_ = random.Random(options.seed)
    transcripts = [line.split()[1:] for line in corpus.read_lines(options.text)]
    words = sorted({line.split()[0] for line in corpus.read_lines(options.lexicon) if line.strip()})
    words = [word for word in words if word.isalpha() and len(word) > 2]
    transcripts = [transcript for transcript in transcripts if len(transcript) > 3]
    sentences = []
    for number in range(options.sentences):
        if number % 3 == 2:
            sentence = random_.sample(words, random_.randint(3, 8))
        else:
            transcript = random_.choice(transcripts)
            begin = random_.randrange(max(1, len(transcript) - 12))
            sentence = transcript[begin:begin + random_.randint(4, 14)]
        sentences.append(" ".join(sentence).lower())
    corpus.write_lines(options.out, sentences)
    print(f"english_sentences: {len(sentences)}")


if __name__ == "__main__":
    main()
