#!/usr/bin/env python3
"""What a network learns from that tells speech from other sound: aligned speech, and sounds that are none.

Takes some utterances of a data directory that `antiphon align` aligned, sounds made by formulas (vad_sounds.py) and pieces
of music, and writes the data directory OUT/data with OUT/labels.txt: a line per recording and per copy that `antiphon
features` will make of it, 0 or 1 for each hundredth of a second. OUT/noise has sounds to lay under the speech.
"""
import argparse
import array
import glob
import os
import random
import re
import sys
import wave

import corpus
import vad_sounds as sounds

SHIFT_S = 0.01
COPY = re.compile(r"^aug\d+-")


def read_labels(ctm, silence):
    """{utterance: [0 or 1 per frame]} from a CTM of phones; of an utterance and its varied copy, one."""
    labels, seen = {}, {}
    with open(ctm, encoding="utf-8") as file:
        for line in file:
            aligned, _, start, duration, phone = line.split()[:5]
            utterance = COPY.sub("", aligned)
            if seen.setdefault(utterance, aligned) != aligned:
                continue
            begin, end = round(float(start) / SHIFT_S), round((float(start) + float(duration)) / SHIFT_S)
            frames = labels.setdefault(utterance, [])
            frames.extend([0] * (end - len(frames)))
            if phone not in silence:
                frames[begin:end] = [1] * (end - begin)
    return labels


def write_wav(path, samples):
    with wave.open(path, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(sounds.RATE)
        writer.writeframes(samples.tobytes())


def music_pieces(folder, tunes, piece_s):
    """Names and samples of pieces of the tunes, which are mono WAVs of 16 bits at the sounds' rate."""
    for tune in tunes:
        paths = glob.glob(os.path.join(folder, tune + ".wav"))
        if not paths:
            sys.exit(f"vad_recordings: there is no '{tune}.wav' in '{folder}'; install the Debian package "
                     "asterisk-moh-opsound-wav, or give --music ''")
        with wave.open(paths[0]) as reader:
            if (reader.getnchannels(), reader.getsampwidth(), reader.getframerate()) != (1, 2, sounds.RATE):
                sys.exit(f"vad_recordings: '{paths[0]}' is not mono of 16 bits at {sounds.RATE} Hz")
            number = 0
            while samples := reader.readframes(int(piece_s * sounds.RATE)):
                if len(samples) > sounds.RATE:
                    yield f"{tune}-{number:03}", array.array("h", samples)
                number += 1


class Recordings:
    """A data directory in the making."""

    def __init__(self, out, copies):
        self.out, self.copies = os.path.abspath(out), copies
        self.tables = {"wav.scp": [], "segments": [], "utt2spk": []}
        self.labels = []
        for name in ("data", "sounds", "noise"):
            os.makedirs(os.path.join(self.out, name), exist_ok=True)

    def add_labels(self, utterance, frames):
        line = " ".join(map(str, frames))
        self.labels += [f"{name} {line}" for name in [utterance] + [f"aug{n + 1}-{utterance}" for n in range(self.copies)]]

    def add_sound(self, name, samples):
        path = os.path.join(self.out, "sounds", name + ".wav")
        write_wav(path, samples)
        self.tables["wav.scp"].append(f"{name} {path}")
        self.tables["segments"].append(f"{name} {name} 0 {len(samples) / sounds.RATE:.3f}")
        self.tables["utt2spk"].append(f"{name} {name}")
        self.add_labels(name, [0] * (len(samples) * 100 // sounds.RATE))

    def write(self):
        for name, lines in self.tables.items():
            corpus.write_lines(os.path.join(self.out, "data", name), sorted(set(lines)))
        corpus.write_lines(os.path.join(self.out, "labels.txt"), self.labels)


def add_speech(recordings, data, ctm, silence, most_s, random_):
    """Some utterances of a data directory; returns their seconds."""
    labels = read_labels(ctm, silence)
    references, segments, speakers = (corpus.read_table(os.path.join(data, name))
                                      for name in ("wav.scp", "segments", "utt2spk"))
    candidates = sorted(utterance for utterance in labels if utterance in speakers)
    if not candidates:
        sys.exit(f"vad_recordings: no utterance of '{data}' is in '{ctm}'")
    random_.shuffle(candidates)
    seconds = 0.0
    for utterance in candidates:
        if seconds >= most_s:
            break
        length = len(labels[utterance]) * SHIFT_S
        recording = segments[utterance].split()[0] if segments else utterance
        piece = segments[utterance] if segments else f"{recording} 0 {length:.2f}"
        recordings.tables["wav.scp"].append(f"{recording} {corpus.absolute_path(references[recording], data)}")
        recordings.tables["segments"].append(f"{utterance} {piece}")
        recordings.tables["utt2spk"].append(f"{utterance} {speakers[utterance]}")
        recordings.add_labels(utterance, labels[utterance])
        seconds += length
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", required=True, help="data directories of speech; empty ones are left out")
    parser.add_argument("--ctm", nargs="+", required=True, help="phones.ctm of their alignments")
    parser.add_argument("--silence", nargs="+", default=["SIL"], help="phones that are no speech")
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--minutes", type=float, default=40, help="of speech of each, at most")
    parser.add_argument("--sound-minutes", type=float, default=14, help="of sounds made by formulas")
    parser.add_argument("--music", default="/usr/share/asterisk/moh", help="folder of tunes; empty: none")
    parser.add_argument("--tunes", nargs="+", default=["macroform-cold_day", "macroform-robot_dity",
                                                       "manolo_camp-morning_coffee"], help="of that folder")
    parser.add_argument("--copies", type=int, default=2, help="augmented copies that features will make")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random_ = random.Random(options.seed)
    recordings = Recordings(options.out, options.copies)
    speech_s = 0.0
    for data, ctm in zip(filter(None, options.data), filter(None, options.ctm), strict=True):
        speech_s += add_speech(recordings, data, ctm, set(options.silence), 60 * options.minutes, random_)
    num_utterances = len(recordings.tables["utt2spk"])
    piece_s, kinds = 8, sorted(sounds.KINDS)
    for number in range(int(60 * options.sound_minutes / piece_s)):
        kind = "song" if number % 2 else kinds[number // 2 % len(kinds)]  # music is the hardest
        recordings.add_sound(f"made-{kind}-{number:03}", sounds.sound(kind, random_, piece_s))
    noises = {kind: sounds.sound(kind, random_, 6 * piece_s) for kind in kinds if kind != "hiss"}
    for number in range(2, 5):
        noises[f"song-{number}"] = sum((sounds.sound("song", random_, piece_s) for _ in range(6)), array.array("h"))
    music = {}
    for name, samples in music_pieces(options.music, options.tunes, piece_s) if options.music else ():
        recordings.add_sound("music-" + name, samples)
        music.setdefault(name.rpartition("-")[0], array.array("h")).extend(samples)
    for number in range(3):
        tune = [samples for index, samples in enumerate(music.values()) if index % 3 == number]
        noises[f"music-{number + 1}"] = sum(tune, array.array("h")) or sounds.sound("song", random_, 6 * piece_s)
    for name, samples in noises.items():
        write_wav(os.path.join(recordings.out, "noise", name + ".wav"), samples)
    recordings.write()
    print(f"vad_recordings: {num_utterances} utterances, {speech_s / 60:.1f} minutes of aligned speech; "
          f"{len(recordings.tables['utt2spk']) - num_utterances} sounds that are none")


if __name__ == "__main__":
    main()
