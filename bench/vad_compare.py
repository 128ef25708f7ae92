#!/usr/bin/env python3
"""How well speech is told from other sound, beside the network of the wheel silero-vad, on the same recordings.

Makes recordings of aligned utterances with pauses between them, clean and with noise, hum and music at several
signal-to-noise ratios, and prints for each condition the area under the ROC curve over frames of 10 ms (the truth is
the alignment: phones or silence), the share of words that lie in the turns found, and the time taken. Needs numpy,
soundfile, onnxruntime and the file silero_vad.onnx (pip install numpy soundfile onnxruntime; pip install --no-deps
silero-vad).
"""
import argparse
import importlib.util
import json
import os
import pathlib
import resource
import subprocess
import time

import numpy
import onnxruntime
import soundfile

RATE = 16000
SHIFT = RATE // 100


def read_table(path):
    with open(path, encoding="utf-8") as file:
        return dict(line.rstrip("\n").split(None, 1) for line in file if line.strip())


def read_ctm(path):
    found = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            utterance, _, start, duration, name = line.split()[:5]
            found.setdefault(utterance, []).append((float(start), float(start) + float(duration), name))
    return found


def at_rate(samples, rate):
    """Linear resampling is enough for noises."""
    count = int(len(samples) * RATE / rate)
    return numpy.interp(numpy.arange(count) * rate / RATE, numpy.arange(len(samples)), samples)


class Speech:
    """Utterances one behind the other, with pauses between; labels per frame and words with their times."""

    def __init__(self, data, align, seconds, random_):
        root = pathlib.Path(data).resolve().parent.parent
        phones, words = read_ctm(f"{align}/phones.ctm"), read_ctm(f"{align}/words.ctm")
        samples, labels, self.words, at = [], [], [], 0
        names = sorted(phones)
        random_.shuffle(names)
        references = read_table(f"{data}/wav.scp")
        for utterance in names:
            if at > seconds * RATE:
                break
            sound, rate = soundfile.read(root / references[utterance])
            assert rate == RATE
            pause = int(random_.uniform(0.5, 3.0) * 100) * SHIFT
            sound = sound[: len(sound) // SHIFT * SHIFT]
            label = numpy.zeros((len(sound) + pause) // SHIFT, bool)
            for begin, end, phone in phones[utterance]:
                if phone != "SIL":
                    label[round(begin * 100):round(end * 100)] = True
            self.words += [(at / RATE + begin, at / RATE + end) for begin, end, _ in words[utterance]]
            # Faint noise as the recording has it where it is quiet.
            quiet = numpy.sort(numpy.abs(sound))[: len(sound) // 10].std() + 1e-5
            samples += [sound, random_.normal(0, quiet, pause)]
            labels.append(label)
            at += len(sound) + pause
        self.samples, self.labels = numpy.concatenate(samples), numpy.concatenate(labels)
        self.power = numpy.mean(self.samples[numpy.repeat(self.labels, SHIFT)] ** 2)


def noises(music, count, random_):
    white = random_.normal(0, 1, count)
    spectrum = numpy.fft.rfft(white)
    pink = numpy.fft.irfft(spectrum / numpy.sqrt(numpy.maximum(1, numpy.arange(len(spectrum)))), count)
    time_s = numpy.arange(count) / RATE
    hum = sum(numpy.sin(2 * numpy.pi * 50 * k * time_s + k) / k for k in (1, 2, 3, 4, 5, 7, 9, 11, 20))
    made = {"white": white, "pink": pink, "hum": hum}
    for tune in music:
        sound, rate = soundfile.read(tune)
        sound = at_rate(sound, rate)
        made[pathlib.Path(tune).stem] = numpy.resize(sound, count)
    return {name: noise / numpy.sqrt(numpy.mean(noise**2)) for name, noise in made.items()}


def area_under_curve(scores, labels):
    order = numpy.argsort(scores, kind="stable")
    values, first, counts = numpy.unique(scores[order], return_index=True, return_counts=True)
    ranks = numpy.empty(len(scores))
    ranks[order] = numpy.repeat(first + (counts + 1) / 2, counts)
    positive = labels.sum()
    return (ranks[labels].sum() - positive * (positive + 1) / 2) / (positive * (len(labels) - positive))


class Silero:
    def __init__(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        package = pathlib.Path(importlib.util.find_spec("silero_vad").origin).parent
        self.session = onnxruntime.InferenceSession(str(package / "data/silero_vad.onnx"), options)

    def probabilities(self, samples):
        """Of each window of 32 ms, by its own stream: 64 samples of the one before are seen again."""
        window, context = 512, numpy.zeros((1, 64), numpy.float32)
        state, found = numpy.zeros((2, 1, 128), numpy.float32), []
        for begin in range(0, len(samples) - window + 1, window):
            piece = samples[None, begin:begin + window].astype(numpy.float32)
            output, state = self.session.run(None, {"input": numpy.concatenate([context, piece], 1), "state": state,
                                                    "sr": numpy.array(RATE, numpy.int64)})
            context = piece[:, -64:]
            found.append(output[0, 0])
        return numpy.array(found)


def frames_of(probabilities, count, window_s):
    """The value of the window in which each frame's middle lies."""
    index = ((numpy.arange(count) * 0.01 + 0.005) / window_s).astype(int)
    return probabilities[numpy.minimum(index, len(probabilities) - 1)]


def run(program, *arguments):
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    result = subprocess.run([program, "vad", "--threads", "1", *arguments], check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return result.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.time() - began


def words_found(words, turns):
    """The share of words whose middle four fifths lie in one turn."""
    def inside(begin, end):
        margin = (end - begin) / 10
        return any(a <= begin + margin and end - margin <= b for a, b in turns)
    return sum(inside(*word) for word in words) / len(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/release/antiphon")
    parser.add_argument("--model", required=True, help="network of recipes/vad.toml, or a bundle with one")
    parser.add_argument("--data", required=True, help="data directory, one file an utterance")
    parser.add_argument("--align", required=True, help="folder that antiphon align made of it")
    parser.add_argument("--music", nargs="*", default=[])
    parser.add_argument("--snr", nargs="*", type=float, default=[20, 10, 5, 0])
    parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("--threshold", type=float, default=0.5, help="from which probability on sound is in turns")
    parser.add_argument("--peak", type=float, default=0.9, help="probability that a turn must reach; 0: none")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    random_ = numpy.random.default_rng(1)
    os.makedirs(options.out, exist_ok=True)
    speech, silero = Speech(options.data, options.align, 60 * options.minutes, random_), Silero()
    seconds = len(speech.samples) / RATE
    print(f"{seconds / 60:.1f} minutes, {100 * speech.labels.mean():.0f} % of frames speech, {len(speech.words)} words")
    conditions = [("clean", None, numpy.zeros(len(speech.samples)))]
    for name, noise in noises(options.music, len(speech.samples), random_).items():
        for snr in options.snr:
            conditions.append((name, snr, noise * numpy.sqrt(speech.power / 10 ** (snr / 10))))
    rows = []
    for name, snr, noise in conditions:
        samples = numpy.clip(speech.samples + noise, -1, 1)
        path = os.path.join(options.out, "mixed.wav")
        soundfile.write(path, samples, RATE, subtype="PCM_16")
        ours = numpy.array([float(line.split()[-1]) for line in
                            run(options.program, "--model", options.model, "--frames", path)[0].splitlines()])
        turns, cpu_s, _ = run(options.program, "--model", options.model, "--vad-threshold", str(options.threshold), "--vad-peak",
                              str(options.peak), "--json", path)
        turns = [(turn["start"], turn["end"]) for turn in json.loads(turns)["recordings"][0]["turns"]]
        began = time.process_time()
        theirs = silero.probabilities(samples)
        their_s = time.process_time() - began
        count = min(len(speech.labels), len(ours))
        rows.append({"noise": name, "snr_db": snr,
                     "auc": area_under_curve(frames_of(ours, count, 0.01), speech.labels[:count]),
                     "silero_auc": area_under_curve(frames_of(theirs, count, 0.032), speech.labels[:count]),
                     "words_in_turns": words_found(speech.words, turns),
                     "share_in_turns": sum(b - a for a, b in turns) / seconds,
                     "core_share": cpu_s / seconds, "silero_core_share": their_s / seconds})
        row = rows[-1]
        print(f"{name:24} {'' if snr is None else snr!s:>5} dB  AUC {row['auc']:.4f}  silero {row['silero_auc']:.4f}  "
              f"words {100 * row['words_in_turns']:.2f} %  turns {100 * row['share_in_turns']:.0f} % of the time  "
              f"{100 * row['core_share']:.2f} % of a core (silero {100 * row['silero_core_share']:.2f} %)", flush=True)
    mean = {key: float(numpy.mean([row[key] for row in rows])) for key in ("auc", "silero_auc", "words_in_turns")}
    print(f"mean: AUC {mean['auc']:.4f}, silero {mean['silero_auc']:.4f}, words {100 * mean['words_in_turns']:.2f} %")
    with open(os.path.join(options.out, "vad_compare.json"), "w", encoding="utf-8") as file:
        json.dump({"conditions": rows, "mean": mean}, file, indent=1)


if __name__ == "__main__":
    main()
