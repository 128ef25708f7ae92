#!/usr/bin/env python3
"""Synthetic training speech of the demo: many voices of espeak-ng and flite say the sentences of a file.

Writes OUT/wav and the Kaldi data directory OUT. Every "speaker" is a voice with a speed, a pitch and a vocal tract: the
sampling rate in the WAV's header is scaled, which moves formants, pitch and speed when it is resampled to the
recogniser's rate. Deterministic for a seed, whatever the number of jobs.
"""
import argparse
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import wave

import corpus
import espeak

ACCENTS = ["en-us", "en-us", "en-us", "en-us-nyc", "en", "en-gb-x-rp", "en-gb-scotland", "en-029"]
VARIANTS = ("adam Alex Alicia Andrea Andy Annie anika antonio aunty belinda benjamin boris caleb david Denis ed edward "
            "edward2 f1 f2 f3 f4 f5 Gene Gene2 grandma grandpa Henrique Hugo iven iven2 iven3 Jacky john Lee linda m1 m2 m3 "
            "m4 m5 m6 m7 m8 Marco Mario max Michael michel Mike norbert pablo paul pedro quincy rob robert sandro shelby "
            "steph steph2 steph3 travis victor zac klatt klatt2 klatt3 klatt4").split()
FLITE_VOICES = ["slt", "slt", "slt", "rms", "rms", "kal16", "awb"]  # kal16 is built of recorded diphones


def espeak_speaker(random_, index):
    voice = random_.choice(ACCENTS) + "+" + random_.choice(VARIANTS)
    return {"kind": "espeak", "name": f"e{index:03}", "voice": voice, "rate": random_.randint(130, 200),
            "pitch": random_.randint(30, 75), "range": random_.randint(30, 70), "warp": random_.uniform(0.95, 1.08)}


def flite_speaker(random_, index):
    voice = random_.choice(FLITE_VOICES)
    warp = random_.uniform(1.0, 1.2) if voice != "slt" else random_.uniform(0.9, 1.12)
    return {"kind": "flite", "name": f"f{index:03}", "voice": voice, "stretch": random_.uniform(0.85, 1.35),
            "pitch": random_.uniform(0.85, 1.2), "warp": warp}


FLITE_PITCH = {"slt": 170, "rms": 95, "kal16": 105, "awb": 130}


def flite_speech(words, speaker):
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        command = ["flite", "-voice", speaker["voice"], "--setf", f"duration_stretch={speaker['stretch']:.3f}",
                   "--setf", f"int_f0_target_mean={FLITE_PITCH[speaker['voice']] * speaker['pitch']:.1f}",
                   "-t", " " + " ".join(words), "-o", file.name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with wave.open(file.name) as reader:
            return reader.readframes(reader.getnframes()), reader.getframerate()


def say(job):
    """One speaker's sentences; returns entries for the data directory."""
    speaker, sentences, folder, seed = job
    random_ = random.Random(seed)
    synthesiser = espeak.Espeak() if speaker["kind"] == "espeak" else None
    entries = []
    for index, words in enumerate(sentences):
        if synthesiser:
            samples, _, _ = synthesiser.speak(" ".join(words), speaker["voice"], speaker["rate"], speaker["pitch"],
                                              speaker["range"], random_.choice([0, 0, 0, 2]))
            rate = synthesiser.sample_rate
        else:
            samples, rate = flite_speech(words, speaker)
        if len(samples) < rate // 5:
            continue
        rate = int(rate * speaker["warp"])
        # Room noise around the words, far below speech, as a recording has it; digital silence would be a class of its own.
        edge = [random_.randbytes(0)] * 2
        for side in range(2):
            count = int(rate * random_.uniform(0.1, 0.35))
            edge[side] = b"".join(random_.randint(-12, 12).to_bytes(2, "little", signed=True) for _ in range(count))
        utt_id = f"{speaker['name']}-{index:04}"
        path = os.path.join(folder, utt_id + ".wav")
        with wave.open(path, "wb") as writer:
            writer.setnchannels(1)
            writer.setsampwidth(2)
            writer.setframerate(rate)
            writer.writeframes(edge[0] + samples + edge[1])
        entries.append((utt_id, speaker["name"], os.path.abspath(path), words))
    return entries


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", required=True, help="text file, one sentence a line")
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--per-speaker", type=int, default=25, help="sentences of one speaker")
    parser.add_argument("--flite-share", type=float, default=0.6, help="share of speakers that are flite's")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sentences = [line.split() for line in corpus.read_lines(options.sentences)]
    folder = os.path.join(options.out, "wav")
    os.makedirs(folder, exist_ok=True)
    random_ = random.Random(options.seed)
    jobs = []
    for index, start in enumerate(range(0, len(sentences), options.per_speaker)):
        maker = flite_speaker if random_.random() < options.flite_share else espeak_speaker
        jobs.append((maker(random_, index), sentences[start:start + options.per_speaker], folder, options.seed + index))
    try:
        # A process per speaker: espeak-ng keeps state from voice to voice.
        with multiprocessing.Pool(options.jobs, maxtasksperchild=1) as pool:
            entries = [entry for part in pool.imap(say, jobs, chunksize=1) for entry in part]
    except FileNotFoundError as error:
        sys.exit(f"synthesize: {error}; the Debian packages espeak-ng and flite are needed")
    corpus.write_data_dir(options.out, entries)
    print(f"synthesize: {len(entries)} utterances by {len(jobs)} speakers")


if __name__ == "__main__":
    main()
