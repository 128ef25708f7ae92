"""What the scripts of recipes share: Kaldi data directories, text files, and the normal form of a transcript."""
import hashlib
import os
import re
import sys

CMUDICT = "/usr/share/pocketsphinx/model/en-us/cmudict-en-us.dict"
DIGITS = "zero one two three four five six seven eight nine".split()


def words_of(text):
    """Words in lower case; single digits spelled, signs named. None if the text does not say how it is spoken."""
    text = re.sub(r"\([^)]*\)|\[[^\]]*\]|<[^>]*>", " ", text).lower()
    text = text.replace("*", " star ").replace("#", " pound ").replace("&", " and ").replace("’", "'")
    if re.search(r"\d\d|\d\.\d|www\.|h\.3", text):
        return None
    text = re.sub(r"\d", lambda m: f" {DIGITS[int(m.group())]} ", text)
    text = re.sub(r"\b([ap])\.m\.", r"\1 m", text)
    words = [w.strip("'") if w.strip("'") else w for w in re.findall(r"[a-z']+", text)]
    return [w for w in words if w]


def part_of(words, parts):
    """The part that a transcript falls into: by a checksum of its words, so that equal transcripts stay together.

    `parts` maps names to shares that add up to 1.
    """
    share = int(hashlib.sha1(" ".join(words).encode()).hexdigest()[:8], 16) / 2**32
    for name, size in parts.items():
        if share < size:
            return name
        share -= size
    return name


def write_data_dir(folder, utterances):
    """`utterances`: (utt_id, speaker, absolute path, words); utt_id begins with the speaker."""
    os.makedirs(folder, exist_ok=True)
    utterances = sorted(utterances)
    speakers = {}
    for utt_id, speaker, _, _ in utterances:
        speakers.setdefault(speaker, []).append(utt_id)
    tables = {
        "wav.scp": [f"{u} {path}" for u, _, path, _ in utterances],
        "text": [f"{u} {' '.join(words)}" for u, _, _, words in utterances],
        "utt2spk": [f"{u} {s}" for u, s, _, _ in utterances],
        "spk2utt": [f"{s} {' '.join(u)}" for s, u in sorted(speakers.items())],
    }
    for name, lines in tables.items():
        write_lines(os.path.join(folder, name), lines)


def write_lines(path, lines):
    """Writes a text file whole or not at all."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)
    os.replace(path + ".tmp", path)


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def read_table(path):
    """{key: the rest of its line}; a file that is not there is an empty table."""
    if not os.path.exists(path):
        return {}
    return dict((line.split(None, 1) + [""])[:2] for line in read_lines(path) if line.strip())


def pronunciations_of(words, dictionary=CMUDICT):
    """{word: [phones, …]}, of those that the dictionary has; their further lines end in a number, as CMUdict's "god(2)"."""
    if not os.path.exists(dictionary):
        sys.exit(f"{os.path.basename(sys.argv[0])}: the dictionary '{dictionary}' is missing"
                 + ("; install the Debian package pocketsphinx-en-us" if dictionary == CMUDICT else ""))
    pronunciations = {}
    for line in read_lines(dictionary):
        word, *phones = line.split() or [""]
        word = re.sub(r"\(\d+\)$", "", word)
        if word in words:
            pronunciations.setdefault(word, []).append(" ".join(phones))
    return pronunciations


def absolute_path(reference, data):
    """The path of wav.scp as an absolute one: it is looked up from the folders above, as antiphon does. Commands stay."""
    if reference.rstrip().endswith("|") or os.path.isabs(reference):
        return reference
    folder = os.path.abspath(data)
    while not os.path.exists(os.path.join(folder, reference)):
        if os.path.dirname(folder) == folder:
            sys.exit(f"{os.path.basename(sys.argv[0])}: '{reference}' of '{data}/wav.scp' is nowhere above that folder")
        folder = os.path.dirname(folder)
    return os.path.join(folder, reference)
