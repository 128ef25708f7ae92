#!/usr/bin/env python3
"""One long recording of many utterances and its text, with parts left out on either side; and how much of that is found.

  long_alignment.py make DATA-DIR… --out talk --minutes 60 --drop 12 --add 12 --foreign data/train/text
  antiphon align --data talk --model … --lexicon … --out times
  long_alignment.py score talk/truth.tsv times/unaligned.tsv
  long_alignment.py boundaries talk/truth.tsv data/truth.ctm times

--drop: utterances whose text is left out; --add: sentences of --foreign that nobody says. `boundaries` is for the speech of
recipes/scripts/aligner_truth.py, whose phones' times are known: how far those are that the aligner found, wherever it took
the phones that were spoken. Needs soundfile (PyPI).
"""
import argparse
import collections
import difflib
import pathlib
import random
import statistics
import wave


def read_utterances(folders):
    for folder in map(pathlib.Path, folders):
        audio = dict(line.split(maxsplit=1) for line in (folder / "wav.scp").read_text().splitlines())
        for line in (folder / "text").read_text().splitlines():
            utt_id, text = line.split(" ", 1)
            path = pathlib.Path(audio[utt_id])
            yield utt_id, path if path.is_absolute() else folder.parent.parent / path, text


def make(options):
    import soundfile  # pylint: disable=import-outside-toplevel,import-error
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    utterances = list(read_utterances(options.data))
    expected = soundfile.info(utterances[0][1]).samplerate
    parts, at = [], 0
    with wave.open(str(out / "talk.wav"), "wb") as talk:
        talk.setnchannels(1)
        talk.setsampwidth(2)
        talk.setframerate(expected)
        for utt_id, path, text in utterances:
            samples, rate = soundfile.read(path, dtype="int16")
            if rate != expected:
                raise SystemExit(f"{path} has {rate} Hz, expected {expected} as the first one")
            talk.writeframes(samples.tobytes())
            parts.append([utt_id, at / rate, (at + len(samples)) / rate, text, "both"])
            at += len(samples)
            if at > 60 * options.minutes * rate:
                break
    random_ = random.Random(3)
    for i in random_.sample(range(5, len(parts) - 5), options.drop):
        parts[i][4] = "speech"
    foreign = [line.split(" ", 1)[1] for line in open(options.foreign, encoding="utf-8").read().splitlines()]
    for i in sorted(random_.sample(range(5, len(parts) - 5), options.add), reverse=True):
        parts.insert(i, ["-", parts[i][1], parts[i][1], random_.choice(foreign), "text"])
    (out / "talk.txt").write_text("".join(part[3] + "\n" for part in parts if part[4] != "speech"))
    (out / "truth.tsv").write_text("".join("\t".join(map(str, part)) + "\n" for part in parts))
    print(f"{at / expected:.0f} s, {sum(len(part[3].split()) for part in parts if part[4] != 'speech')} words")


def score(options):
    truth = [line.split("\t") for line in pathlib.Path(options.truth).read_text().splitlines()]
    rows = [line.split("\t") for line in pathlib.Path(options.unaligned).read_text().splitlines()[1:]]
    found = [(float(row[2]), float(row[3])) for row in rows if row[1] == "speech"]
    overlap = lambda begin, end: sum(max(0.0, min(end, e) - max(begin, b)) for b, e in found)
    spoken = [(float(part[1]), float(part[2])) for part in truth if part[4] == "speech"]
    seconds = sum(end - begin for begin, end in spoken)
    right = sum(overlap(begin, end) for begin, end in spoken)
    parts = sum(overlap(begin, end) > 0.5 * (end - begin) for begin, end in spoken)
    print(f"speech without text: {right:.0f} of {seconds:.0f} s, more than half of {parts} of {len(spoken)} parts; "
          f"{sum(end - begin for begin, end in found) - right:.0f} s elsewhere")
    planted = [part[3].split() for part in truth if part[4] == "text"]
    left_out = [word for row in rows if row[1] == "text" for word in row[4].split()]
    print(f"text without speech: {sum(map(len, planted))} words in {len(planted)} parts, {len(left_out)} reported in "
          f"{sum(row[1] == 'text' for row in rows)} places")


def read_ctm(path):
    """[(utterance, start, end, name)]"""
    rows = [line.split() for line in pathlib.Path(path).read_text().splitlines()]
    return [(row[0], float(row[2]), float(row[2]) + float(row[3]), row[4]) for row in rows]


def boundaries(options):
    spoken, times = collections.defaultdict(list), pathlib.Path(options.times)
    for utt_id, start, _, phone in read_ctm(options.phones):
        spoken[utt_id].append((phone, start))
    found = [(phone, start) for _, start, _, phone in read_ctm(times / "phones.ctm") if phone != "SIL"]
    edges = {round(time, 3) for _, start, end, _ in read_ctm(times / "words.ctm") for time in (start, end)}
    pairs, number = [], 0
    for utt_id, begin, end, *_ in (line.split("\t") for line in open(options.truth, encoding="utf-8")):
        true = [(phone, float(begin) + start) for phone, start in spoken[utt_id] if phone != "SIL"]
        here = [(phone, start) for phone, start in found if float(begin) <= start < float(end)]
        blocks = difflib.SequenceMatcher(None, [p for p, _ in true], [p for p, _ in here], autojunk=False).get_matching_blocks()
        pairs += [(true[b.a + i][1], here[b.b + i][1]) for b in blocks for i in range(b.size)]
        number += len(true)
    for name, of_them in (("phone starts", pairs), ("word boundaries", [p for p in pairs if round(p[1], 3) in edges])):
        errors = [abs(a - b) for a, b in of_them]
        within = lambda limit: 100 * sum(e <= limit + 1e-4 for e in errors) / len(errors)
        print(f"{len(errors)} {name} of {number} phones spoken: median deviation {1000 * statistics.median(errors):.1f} ms, "
              f"{within(0.02):.1f} % within 20 ms, {within(0.05):.1f} % within 50 ms, largest {max(errors):.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("make")
    making.add_argument("data", nargs="+")
    making.add_argument("--out", required=True)
    making.add_argument("--minutes", type=float, default=60)
    making.add_argument("--drop", type=int, default=0)
    making.add_argument("--add", type=int, default=0)
    making.add_argument("--foreign", default="/dev/null")
    making.set_defaults(run=make)
    scoring = commands.add_parser("score")
    scoring.add_argument("truth")
    scoring.add_argument("unaligned")
    scoring.set_defaults(run=score)
    measuring = commands.add_parser("boundaries")
    measuring.add_argument("truth")
    measuring.add_argument("phones", help="truth.ctm of the utterances")
    measuring.add_argument("times", help="folder that align wrote")
    measuring.set_defaults(run=boundaries)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
