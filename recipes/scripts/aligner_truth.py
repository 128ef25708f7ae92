#!/usr/bin/env python3
"""Speech whose phone boundaries are known exactly: one voice of espeak-ng, with the times of its phoneme events.

Writes the Kaldi data directory OUT (8 or 16 kHz via the WAV's own 22050 Hz), OUT/lexicon.txt in espeak's phonemes with
every pronunciation that occurred, and OUT/truth.ctm: UTTERANCE 1 START DURATION PHONE. An aligner that is right finds
these boundaries again.
"""
import argparse
import os
import random
import wave

import corpus
import espeak


def phones_of(events, words, text, end_ms):
    """[(start_ms, end_ms, phone, word index or -1)]; None if espeak's words are not those of the text."""
    starts, at = {}, 0
    for index, word in enumerate(words):
        starts[text.index(word, at) + 1] = index
        at = text.index(word, at) + len(word)
    phones = []
    for (ms, name, position), following in zip(events, [*events[1:], (end_ms, "_", 0)]):
        pause = name.startswith("_")
        if not pause and position not in starts:
            return None
        phones.append((ms, following[0], "SIL" if pause else name.replace("#", "~"), -1 if pause else starts[position]))
    return phones


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--voice", default="en-us")
    options = parser.parse_args()
    synthesiser = espeak.Espeak()
    synthesiser.speak("warming up", options.voice)
    folder = os.path.abspath(os.path.join(options.out, "wav"))
    os.makedirs(folder, exist_ok=True)
    random_ = random.Random(1)
    utterances, truth, lexicon = [], [], {}
    for number, line in enumerate(corpus.read_lines(options.sentences)[: options.count]):
        words = line.split()
        samples, events, _ = synthesiser.speak(line, options.voice, random_.randint(140, 180))
        end_ms = len(samples) * 500 // synthesiser.sample_rate
        phones = phones_of(events, words, line, end_ms)
        if phones is None or {p[3] for p in phones if p[3] >= 0} != set(range(len(words))):
            continue
        utt_id = f"one-{number:04}"
        path = os.path.join(folder, utt_id + ".wav")
        with wave.open(path, "wb") as writer:
            writer.setnchannels(1)
            writer.setsampwidth(2)
            writer.setframerate(synthesiser.sample_rate)
            writer.writeframes(samples)
        utterances.append((utt_id, "one", path, words))
        pronunciations = [[p[2] for p in phones if p[3] == index] for index in range(len(words))]
        for word, pronunciation in zip(words, pronunciations):
            lexicon.setdefault(word, set()).add(" ".join(pronunciation))
        truth += [f"{utt_id} 1 {a / 1000:.3f} {(b - a) / 1000:.3f} {phone}" for a, b, phone, _ in phones if b > a]
    corpus.write_data_dir(options.out, utterances)
    corpus.write_lines(os.path.join(options.out, "truth.ctm"), truth)
    lines = [f"{word} {phones}" for word in sorted(lexicon) for phones in sorted(lexicon[word])]
    corpus.write_lines(os.path.join(options.out, "lexicon.txt"), ["<SIL> SIL"] + lines)
    print(f"aligner_truth: {len(utterances)} utterances, {len(lines)} pronunciations")


if __name__ == "__main__":
    main()
