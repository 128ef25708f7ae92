#!/usr/bin/env python3
"""What a network learns from that tells speech from other sound: aligned speech, and sounds that are none.

Takes some utterances of a data directory that `antiphon align` aligned, sounds made by formulas (vad_sounds.py) and
music, recorded (each tune also slower and faster) and played by fluidsynth from MIDI files, and
writes the data directory OUT/data with OUT/labels.txt: a line per recording and per copy that `antiphon features` will
make of it, 0 or 1 for each hundredth of a second. Each utterance gets pauses before and after it, in which noise that
is added goes on: read speech has few that are long. OUT/noise has sounds to lay under the speech.
"""
import argparse
import array
import concurrent.futures
import glob
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import wave

import corpus
import vad_sounds as sounds

SHIFT_S = 0.01
PIECE_S = 8
MUSIC_PIECE_S = 16  # longer than what the network sees at once
EXCERPT_S = 24  # of an album's track, at a speed of its own
NUM_MUSIC_NOISES = 8
NOISE_S = 600  # of music to lay under speech, in each of its files
SPEEDS = (1.0, 0.84, 1.19)  # a tune three semitones lower and higher is almost another one
COPY = re.compile(r"^aug\d+-")
CLEAN = re.compile(r"[^A-Za-z0-9]+")


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


def write_wav(path, samples, rate=sounds.RATE):
    with wave.open(path, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(samples.tobytes())


def at_speed(samples, speed):
    """Slower and lower, or faster and higher; linear interpolation is enough."""
    if speed == 1.0:
        return samples
    changed = array.array("h", bytes(2 * int((len(samples) - 1) / speed)))
    for index in range(len(changed)):
        at = index * speed
        left = int(at)
        changed[index] = int(samples[left] + (at - left) * (samples[left + 1] - samples[left]))
    return changed


def recorded_music(folder, tunes):
    """Names and samples of the tunes, which are mono WAVs of 16 bits at the sounds' rate, at several speeds."""
    for tune in tunes:
        path = os.path.join(folder, tune + ".wav")
        if not os.path.exists(path):
            sys.exit(f"vad_recordings: there is no '{path}'; install the Debian package asterisk-moh-opsound-wav, or "
                     "give --music ''")
        with wave.open(path) as reader:
            if (reader.getnchannels(), reader.getsampwidth(), reader.getframerate()) != (1, 2, sounds.RATE):
                sys.exit(f"vad_recordings: '{path}' is not mono of 16 bits at {sounds.RATE} Hz")
            samples = array.array("h", reader.readframes(reader.getnframes()))
        for speed in SPEEDS:
            yield f"{tune}-{round(100 * speed)}", at_speed(samples, speed)


def answer_of(program, path, arguments):
    """What ffmpeg or ffprobe says of a recording."""
    if shutil.which(program) is None:
        sys.exit(f"vad_recordings: '{path}' is read by {program}; install the Debian package ffmpeg")
    run = subprocess.run([program, "-v", "error", *arguments], capture_output=True)
    if run.returncode != 0:
        sys.exit(f"vad_recordings: {program} cannot read '{path}': {run.stderr.decode(errors='replace').strip()}")
    return run.stdout


def length_of(path):
    answer = answer_of("ffprobe", path, ["-show_entries", "format=duration", "-of", "csv=p=0", path]).strip()
    try:
        return float(answer)
    except ValueError:
        sys.exit(f"vad_recordings: ffprobe says '{answer.decode()}' of the length of '{path}', not seconds")


def decoded(path, begin_s, seconds, speed=1.0):
    """A part of a recording of any format that ffmpeg reads, as mono at the sounds' rate; faster and higher if `speed`
    is above 1."""
    rate = round(sounds.RATE / speed)
    read = answer_of("ffmpeg", path, ["-nostdin", "-threads", "1", "-ss", f"{begin_s:.4f}", "-t", f"{seconds:.4f}", "-i",
                                      path, "-map", "0:a:0", "-ac", "1", "-ar", str(rate), "-f", "s16le", "-"])
    return array.array("h", read[:len(read) // 2 * 2])


def spoken(path, begin_s, seconds):
    """Samples of a part of a recording, and their rate; what is no WAV of 16 bits, mono, antiphon reads."""
    try:
        with wave.open(path) as reader:
            if (reader.getnchannels(), reader.getsampwidth()) == (1, 2):
                rate = reader.getframerate()
                reader.setpos(min(reader.getnframes(), round(begin_s * rate)))
                return array.array("h", reader.readframes(round(seconds * rate))), rate
    except (wave.Error, EOFError):
        pass  # another format
    program = os.environ.get("ANTIPHON", "antiphon")
    try:
        read = subprocess.run([program, "samples", path, "--rate", str(sounds.RATE), "--start", f"{begin_s:.4f}", "--end",
                               f"{begin_s + seconds:.4f}"], check=True, stdout=subprocess.PIPE)
    except FileNotFoundError:
        sys.exit(f"vad_recordings: '{path}' is read by antiphon, and there is no program '{program}': name it in the "
                 "environment variable ANTIPHON")
    except subprocess.CalledProcessError:
        sys.exit(f"vad_recordings: antiphon could not read '{path}'; why stands above")
    return array.array("h", read.stdout), sounds.RATE


def faint_level(samples, rate):
    """Root mean square of the quietest twentieth of the speech, at least one step."""
    length = rate // 50
    powers = sorted(sum(x * x for x in samples[at:at + length]) / length
                    for at in range(0, max(1, len(samples) - length), length))
    return max(1.0, powers[len(powers) // 20] ** 0.5)


class Hiss:
    """White noise of any level, in steps of 2 dB, cut from one piece."""

    def __init__(self, random_):
        self.random = random_
        self.one = [random_.gauss(0, 1) for _ in range(30 * sounds.RATE)]
        self.levels = {}

    def part(self, count, level):
        step = round(10 * math.log10(level))
        if step not in self.levels:
            height = 10 ** (step / 10)
            self.levels[step] = array.array("h", [int(max(-32768, min(32767, height * x))) for x in self.one])
        begin = self.random.randrange(len(self.one) - count)
        return self.levels[step][begin:begin + count]


def stem(path):
    return os.path.splitext(os.path.basename(path))[0]


def part_of(samples, most_s, random_):
    """So many seconds from somewhere within."""
    count = int(most_s * sounds.RATE)
    begin = random_.randrange(max(1, len(samples) - count))
    return samples[begin:begin + count]


def played_music(folder, soundfont, most_s, random_):
    """Names and samples of MIDI files as fluidsynth plays them: as much of each as `most_s` in all allows."""
    scores = sorted(glob.glob(os.path.join(folder, "*.mid")))
    if not scores or not os.path.exists(soundfont) or shutil.which("fluidsynth") is None:
        sys.exit(f"vad_recordings: music is played by fluidsynth from the MIDI files in '{folder}' with '{soundfont}'; "
                 "install the Debian packages openttd-openmsx, fluidsynth and timgm6mb-soundfont, or give --midi ''")
    for score in scores:
        with tempfile.TemporaryDirectory() as temporary:
            path = os.path.join(temporary, "played.wav")
            subprocess.run(["fluidsynth", "-ni", "-q", "-r", str(sounds.RATE), "-O", "s16", "-T", "wav", "-F", path,
                            soundfont, score], check=True, stdout=subprocess.DEVNULL, timeout=600)
            with wave.open(path) as reader:
                both = array.array("h", reader.readframes(reader.getnframes()))
        mono = array.array("h", [(left + right) // 2 for left, right in zip(both[::2], both[1::2])])
        if mono:
            yield stem(score), part_of(sounds.scaled(mono, 0.875), most_s / len(scores), random_)


def album_tracks(folders, left_out):
    """Sorted by folder; `left_out` are names without ending, each of which there must be."""
    endings = (".ogg", ".oga", ".opus", ".mp3", ".flac", ".wav", ".m4a")
    tracks = []
    for folder in folders:
        found = [path for path in glob.glob(os.path.join(glob.escape(folder), "**"), recursive=True)
                 if path.lower().endswith(endings)]
        if not found:
            sys.exit(f"vad_recordings: there is no recording in '{folder}'; --albums takes folders with ':' between")
        tracks += sorted(found)
    if missing := left_out - {stem(path) for path in tracks}:
        sys.exit(f"vad_recordings: --albums-without names '{min(missing)}', which is in no folder of --albums")
    return [path for path in tracks if stem(path) not in left_out]


def album_music(folders, left_out, most_s, random_, jobs):
    """Names and samples of excerpts of the recordings in folders, of any format that ffmpeg reads: as much of each
    recording as `most_s` in all allows, from random places, each at a random speed between those of SPEEDS."""
    tracks, excerpts = album_tracks(folders, left_out), []
    for number, track in enumerate(tracks):
        length_s = length_of(track)
        left_s, excerpt = min(most_s / len(tracks), length_s), 0
        while left_s > 0:
            speed = math.exp(random_.uniform(math.log(min(SPEEDS)), math.log(max(SPEEDS))))
            seconds = min(left_s, EXCERPT_S)
            begin_s = random_.random() * max(0, length_s - seconds)
            excerpts.append((f"album-{number:03}-{excerpt:02}-{CLEAN.sub('-', stem(track))}",
                             (track, begin_s, seconds, speed)))
            left_s, excerpt = left_s - EXCERPT_S, excerpt + 1
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        decoders = [(name, pool.submit(decoded, *excerpt)) for name, excerpt in excerpts]
        return [(name, decoder.result()) for name, decoder in decoders]


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

    def add(self, name, samples, rate, labels, speaker):
        path = os.path.join(self.out, "sounds", f"{len(self.tables['wav.scp']):05}.wav")
        write_wav(path, samples, rate)
        self.tables["wav.scp"].append(f"{name} {path}")
        self.tables["segments"].append(f"{name} {name} 0 {len(samples) / rate:.3f}")
        self.tables["utt2spk"].append(f"{name} {speaker}")
        self.add_labels(name, labels)

    def add_sound(self, name, samples):
        self.add(name, samples, sounds.RATE, [0] * (len(samples) * 100 // sounds.RATE), name)

    def add_noise(self, name, samples):
        write_wav(os.path.join(self.out, "noise", name + ".wav"), samples)

    def write(self):
        for name, lines in self.tables.items():
            corpus.write_lines(os.path.join(self.out, "data", name), sorted(set(lines)))
        corpus.write_lines(os.path.join(self.out, "labels.txt"), self.labels)


def add_speech(recordings, data, ctm, silence, most_s, pauses_s, random_):
    """Some utterances of a data directory; returns their seconds."""
    labels = read_labels(ctm, silence)
    references, segments, speakers = (corpus.read_table(os.path.join(data, name))
                                      for name in ("wav.scp", "segments", "utt2spk"))
    candidates = sorted(utterance for utterance in labels if utterance in speakers)
    if not candidates:
        sys.exit(f"vad_recordings: no utterance of '{data}' is in '{ctm}'")
    random_.shuffle(candidates)
    hiss, seconds = Hiss(random_), 0.0
    for utterance in candidates:
        if seconds >= most_s:
            break
        length = len(labels[utterance]) * SHIFT_S
        name, begin_s = segments[utterance].split()[:2] if segments else (utterance, 0)
        samples, rate = spoken(corpus.absolute_path(references[name], data), float(begin_s), length)
        before, after = (random_.randrange(1 + round(pauses_s / SHIFT_S)) for _ in range(2))
        pauses = [hiss.part(round(frames * SHIFT_S * rate), faint_level(samples, rate)) for frames in (before, after)]
        recordings.add(utterance, pauses[0] + samples + pauses[1], rate,
                       [0] * before + labels[utterance] + [0] * after, speakers[utterance])
        seconds += length
    return seconds


def add_made_sounds(recordings, minutes, random_):
    kinds = sorted(sounds.KINDS)
    for number in range(int(60 * minutes / PIECE_S)):
        kind = "song" if number % 2 else kinds[number // 2 % len(kinds)]  # music is the hardest
        recordings.add_sound(f"made-{kind}-{number:03}", sounds.sound(kind, random_, PIECE_S))
    for kind in kinds:
        if kind != "hiss":
            recordings.add_noise(kind, sounds.sound(kind, random_, 6 * PIECE_S))
    for number in range(2, 5):
        for kind in ("noise", "song"):
            recordings.add_noise(f"{kind}-{number}",
                                 sum((sounds.sound(kind, random_, PIECE_S) for _ in range(6)), array.array("h")))


def add_music(recordings, options, random_):
    """In pieces; the noises music-1 … music-8 get the tunes in turn, where there is no music made ones."""
    tunes = list(recorded_music(options.music, options.tunes)) if options.music else []
    if options.midi:
        tunes += played_music(options.midi, options.soundfont, 60 * options.midi_minutes, random_)
    if options.albums:
        tunes += album_music(list(filter(None, options.albums.split(":"))), set(filter(None, options.albums_without.split(":"))),
                             60 * options.album_minutes, random_, options.jobs)
    for name, samples in tunes:
        length = MUSIC_PIECE_S * sounds.RATE
        for number in range((len(samples) + length - sounds.RATE) // length):
            recordings.add_sound(f"music-{name}-{number:03}", samples[number * length:(number + 1) * length])
    random_.shuffle(tunes)
    for number in range(NUM_MUSIC_NOISES):
        noise = array.array("h")
        for _, samples in tunes[number::NUM_MUSIC_NOISES]:
            noise.extend(samples[:NOISE_S * sounds.RATE - len(noise)])
        recordings.add_noise(f"music-{number + 1}", noise or sounds.sound("song", random_, 6 * PIECE_S))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", required=True, help="data directories of speech; empty ones are left out")
    parser.add_argument("--ctm", nargs="+", required=True, help="phones.ctm of their alignments")
    parser.add_argument("--silence", nargs="+", default=["SIL"], help="phones that are no speech")
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--minutes", type=float, default=40, help="of speech of each, at most")
    parser.add_argument("--pauses", type=float, default=2, help="seconds before and behind each utterance, at most")
    parser.add_argument("--sound-minutes", type=float, default=14, help="of sounds made by formulas")
    parser.add_argument("--music", default="/usr/share/asterisk/moh", help="folder of tunes; empty: none")
    parser.add_argument("--tunes", nargs="+", default=["macroform-cold_day", "macroform-robot_dity",
                                                       "manolo_camp-morning_coffee"], help="of that folder")
    parser.add_argument("--midi", default="", help="folder of MIDI files for fluidsynth; empty: none")
    parser.add_argument("--midi-minutes", type=float, default=40, help="of music from them, at most")
    parser.add_argument("--soundfont", default="/usr/share/sounds/sf2/TimGM6mb.sf2", help="their instruments")
    parser.add_argument("--albums", default="", help="folders of recorded music of any format, with ':' between; "
                                                     "empty: none")
    parser.add_argument("--albums-without", default="", help="names of recordings in them, without ending, that are left "
                                                             "out, with ':' between")
    parser.add_argument("--album-minutes", type=float, default=90, help="of music from them, at most")
    parser.add_argument("--jobs", type=int, default=1, help="recordings of albums that are read at the same time")
    parser.add_argument("--copies", type=int, default=0, help="augmented copies that features will make")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random_ = random.Random(options.seed)
    recordings = Recordings(options.out, options.copies)
    speech_s = 0.0
    for data, ctm in zip(filter(None, options.data), filter(None, options.ctm), strict=True):
        speech_s += add_speech(recordings, data, ctm, set(options.silence), 60 * options.minutes,
                               options.pauses, random_)
    num_utterances = len(recordings.tables["utt2spk"])
    add_made_sounds(recordings, options.sound_minutes, random_)
    add_music(recordings, options, random_)
    recordings.write()
    print(f"vad_recordings: {num_utterances} utterances, {speech_s / 60:.1f} minutes of aligned speech; "
          f"{len(recordings.tables['utt2spk']) - num_utterances} sounds that are none")


if __name__ == "__main__":
    main()
