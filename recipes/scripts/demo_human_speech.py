#!/usr/bin/env python3
"""Human recordings of the demo: the prompts of Debian's asterisk-core-sounds-en (one speaker, 8 kHz) with transcripts.

Writes OUT/adapt, OUT/dev and OUT/test (Kaldi data directories) and OUT/vocabulary. A prompt falls into a part by a
checksum of its words (30 % adapt, 20 % dev, 50 % test), so that equal transcripts never stand on two sides. Tones,
silences and prompts whose transcript does not say how it is spoken (numbers of several digits, web addresses, names of
protocols) are left out. The vocabulary, the words of all prompts, is taken as known; a telephone application knows it.
"""
import argparse
import glob
import gzip
import os
import subprocess
import sys

import corpus

SOUNDS = "/usr/share/asterisk/sounds/en_US_f_Allison"
TRANSCRIPTS = "usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz"
PARTS = {"adapt": 0.3, "dev": 0.2, "test": 0.5}
# Said otherwise than written, or not known how.
LEFT_OUT = {"beep", "beeperr", "spy-dahdi", "spy-iax", "spy-iax2", "spy-mgcp", "spy-nbs", "spy-zap", "spy-unistim"}
SPELLINGS = {
    "umute": "unmute", "represenatives": "representatives", "indentified": "identified", "witheld": "withheld",
    "thru": "through", "pbx": "p b x", "ivr": "i v r", "ip": "i p", "voip": "voice over i p", "iax": "i a x",
    "usb": "u s b",
}


def transcripts(folder):
    """Lines "name: text". Minimal systems drop /usr/share/doc, so the package is fetched again if need be."""
    path = "/" + TRANSCRIPTS
    if not os.path.exists(path):
        path = os.path.join(folder, TRANSCRIPTS)
    if not os.path.exists(path):
        print("demo_human_speech: the transcripts were not installed with the package; fetching it", file=sys.stderr)
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["apt-get", "-q", "download", "asterisk-core-sounds-en"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        package = glob.glob(os.path.join(folder, "asterisk-core-sounds-en_*.deb"))[0]
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            name, colon, text = line.strip().partition(":")
            if colon and not name.startswith(";"):
                yield name, text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--package", required=True, help="folder for a package that has to be fetched")
    options = parser.parse_args()
    if not os.path.isdir(SOUNDS):
        sys.exit(f"demo_human_speech: '{SOUNDS}' is missing; install the Debian package asterisk-core-sounds-en-wav")
    parts = {name: [] for name in PARTS}
    vocabulary = set()
    for name, text in transcripts(options.package):
        path = os.path.join(SOUNDS, name + ".wav")
        words = corpus.words_of(text)
        if name in LEFT_OUT or not words or not os.path.exists(path):
            continue
        words = [w for word in words for w in SPELLINGS.get(word, word).split()]
        vocabulary.update(words)
        utterance = ("allison-" + name.replace("/", "_").lower(), "allison", path, words)
        parts[corpus.part_of(words, PARTS)].append(utterance)
    for name, utterances in parts.items():
        corpus.write_data_dir(os.path.join(options.out, name), utterances)
        print(f"demo_human_speech: {name}: {len(utterances)} prompts, {sum(len(u[3]) for u in utterances)} words")
    corpus.write_lines(os.path.join(options.out, "vocabulary"), sorted(vocabulary))
    print(f"demo_human_speech: vocabulary of {len(vocabulary)} words")


if __name__ == "__main__":
    main()
