#!/usr/bin/env python3
"""How many full stops inside of what a human said are found by pauses, by a model of sentences, and by both.

The speech is that of Debian's asterisk-core-sounds-en-wav, prompts by one speaker whose punctuated texts are known. They
are aligned by triphones trained on themselves. Models of sentences learn from the texts of one half of the prompts and
are tried on the other half, in turn, so that no prompt is tried that was learnt; --text adds text to both. Only places
between two words count: that a prompt's last word ends a sentence is no finding.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

RECIPES = pathlib.Path(__file__).resolve().parent.parent / "recipes" / "scripts"
sys.path.insert(0, str(RECIPES))
import corpus  # pylint: disable=wrong-import-position,import-error
import demo_human_speech  # pylint: disable=wrong-import-position,import-error

PAUSES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)  # seconds


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout


def words_and_ends(text):
    """Words as they are said, and whether a sentence ends behind each; None where the text does not say."""
    words, ends = [], []
    text = re.sub(r"\([^)]*\)", " ", text)
    for part in text.split():
        said = corpus.words_of(part)
        if said is None:
            return None
        said = [w for word in said for w in demo_human_speech.SPELLINGS.get(word, word).split()]
        words += said
        ends += [False] * len(said)
        if ends and re.search(r"(?<!\.)[.?!][\"')]*$", part):
            ends[-1] = True
    return words, ends


def prompts(folder):
    found = {}
    for name, text in demo_human_speech.transcripts(folder):
        path = os.path.join(demo_human_speech.SOUNDS, name + ".wav")
        if name in demo_human_speech.LEFT_OUT or not os.path.exists(path):
            continue
        said = words_and_ends(text)
        if said and said[0]:
            found["allison-" + name.replace("/", "_").lower()] = (path, text, *said)
    return found


def half_of(text):
    return int(hashlib.sha1(text.encode()).hexdigest()[:8], 16) % 2


class Count:
    def __init__(self):
        self.wanted = self.found = self.right = 0

    def add(self, wanted, found):
        self.wanted += wanted
        self.found += found
        self.right += wanted and found

    def result(self):
        return {"ends": self.wanted, "found": self.found, "recall": round(self.right / max(1, self.wanted), 4),
                "precision": round(self.right / max(1, self.found), 4)}


def aligned(program, said, out):
    """Of each prompt the words with their times."""
    corpus.write_data_dir(out / "data", [(u, "allison", path, words) for u, (path, _, words, _) in said.items()])
    corpus.write_lines(str(out / "vocabulary"), sorted({w for _, _, words, _ in said.values() for w in words}))
    subprocess.run([sys.executable, RECIPES / "demo_lexicon.py", "--vocabulary", out / "vocabulary", "--out",
                    out / "lexicon.txt"], check=True, stdout=subprocess.DEVNULL)
    run(program, "features", out / "data", "--out", out / "feats", "--kind", "mfcc", "--sample-rate", 8000, "--mel-bins",
        23, "--ceps", 13, "--high-freq-hz", 0)
    run(program, "align", "--data", out / "feats", "--lexicon", out / "lexicon.txt", "--out", out / "align", "--last-stage",
        "tri")
    times = {}
    for line in (out / "align/words.ctm").read_text().splitlines():
        utt_id, _, start, duration, word = line.split()
        times.setdefault(utt_id, []).append((float(start), float(start) + float(duration), word))
    return times


def ends_in(text, count):
    """Whether each written word ends a sentence, of what was written for so many spoken ones."""
    words = text.split()
    if len(words) != count:
        sys.exit(f"written_pauses: {count} words became '{text}'")
    return [word[-1] in ".?!" for word in words]


def by_models(program, said, times, text, out):
    counts = {"model": Count(), "model and pauses": Count()}
    for half in (0, 1):
        learnt = [t for _, t, _, _ in said.values() if half_of(t) != half]
        (out / "learnt.txt").write_text("\n".join(learnt + ([text] if text else [])) + "\n")
        model = out / f"half-{half}.safetensors"
        run(program, "written", "train", out / "learnt.txt", model)
        tried = [u for u in times if half_of(said[u][1]) == half]
        lines = ["".join(f"{u} 1 {b:.3f} {e - b:.3f} {w}\n" for b, e, w in times[u]) for u in tried]
        (out / "tried.ctm").write_text("".join(lines))
        (out / "tried.txt").write_text("".join(" ".join(said[u][2]) + "\n" for u in tried))
        with_pauses = run(program, "written", "apply", model, "--ctm", out / "tried.ctm").splitlines()
        without = run(program, "written", "apply", model, out / "tried.txt").splitlines()
        for utt_id, timed, plain in zip(tried, with_pauses, without):
            ends = said[utt_id][3]
            for name, line in (("model", plain), ("model and pauses", timed.split(None, 1)[1])):
                for wanted, found in list(zip(ends, ends_in(line, len(ends))))[:-1]:
                    counts[name].add(wanted, found)
    return {name: count.result() for name, count in counts.items()}


def by_pauses(said, times):
    counts = {f"pause of {limit} s": Count() for limit in PAUSES}
    for utt_id, words in times.items():
        ends = said[utt_id][3]
        for (_, end, _), (begin, _, _), wanted in zip(words, words[1:], ends):
            for limit in PAUSES:
                counts[f"pause of {limit} s"].add(wanted, begin - end >= limit)
    return {name: count.result() for name, count in counts.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="antiphon")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder for what is made on the way")
    parser.add_argument("--text", type=pathlib.Path, help="punctuated text to learn from besides")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    said = prompts(str(options.out / "package"))
    times = aligned(options.program, said, options.out)
    times = {u: words for u, words in times.items() if [w for _, _, w in words] == said[u][2]}
    result = {"prompts": len(times), "words": sum(map(len, times.values())), **by_pauses(said, times),
              **by_models(options.program, said, times, options.text.read_text() if options.text else "", options.out)}
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
