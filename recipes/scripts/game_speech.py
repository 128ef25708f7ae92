#!/usr/bin/env python3
"""Human speech to train with: the dialogues of the adventure game Flight of the Amazon Queen, as Debian packages it.

Writes OUT/speech (the recordings, MP3 of 11 kHz), the Kaldi data directory OUT and OUT/vocabulary. Some thirty actors
say 2.5 hours of American English. Each side of each dialogue counts as a speaker of its own. Lines with words that
CMUdict lacks are left out: sounds, and names.

The game's file begins with 13 bytes ("QTBL", its version, 1: speech is MP3) and a table: the number of files, and of
each its name (12 bytes), a byte, offset and size; numbers are big-endian. A dialogue, NAME.DOG, has 20 bytes before
its own header: of it counts here the number of levels, the dialogue's number, how many lines each side has, and where
those of the other side begin. The player's lines begin behind a tree of 96 bytes a level. A line is its number, its
length in a byte and its text, on boundaries of 4 bytes. In the text "*12" and "*FL" move the figures and separate the
recordings: of dialogue 7 the second one of line 0x1F that the player, Joe, says is 07001FJ2.SB, of the other person
07001FP2.SB.
"""
import argparse
import os
import re
import struct
import sys

import corpus

GAME = "/usr/share/scummvm/flight-of-the-amazon-queen/queen.1c"
HEADER, TREE, LEVEL = 20, 32, 96  # bytes


class GameFile:
    """The files within the game's one file, by name."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:4] != b"QTBL" or self.data[12] != 1:
            raise ValueError("not the game's file with speech in MP3")
        (count,) = struct.unpack_from(">H", self.data, 13)
        self.places = {}
        for entry in range(count):
            name, offset, size = struct.unpack_from(">12sxII", self.data, 15 + 21 * entry)
            self.places[name.rstrip(b"\0 ").decode("ascii")] = offset, size

    def __getitem__(self, name):
        offset, size = self.places[name]
        return self.data[offset:offset + size]


def lines_of(dialogue, begin, count):
    """(number, text) of one side's lines, which follow a greeting without number."""
    at = begin + 2
    (has_greeting,) = struct.unpack_from(">H", dialogue, at)
    at += 2
    for index in range(count + 1):
        number = None
        if index > 0:
            (number,) = struct.unpack_from(">H", dialogue, at + 2)
            at += 4
        elif has_greeting != 0:
            continue
        length = dialogue[at]
        if number is not None:
            yield number, dialogue[at + 1:at + 1 + length].decode("latin-1")
        at += -(-(1 + length) // 4) * 4


def recordings_of(dialogue):
    """(name of the recording, text) of all lines of a dialogue."""
    dialogue = dialogue[HEADER:]
    levels, _, number, of_player, of_other = struct.unpack_from(">hHHHH", dialogue)
    (other,) = struct.unpack_from(">H", dialogue, 22)
    for side, begin, count in (("J", TREE + LEVEL * abs(levels), of_player), ("P", other, of_other)):
        for line, text in lines_of(dialogue, begin, count):
            for part, said in enumerate(re.split(r"\*(?:\d\d|[A-Z]{2})", text), 1):
                yield f"{number:02}{line:04X}{side}{part:X}", said


def lines_with_recordings(game):
    """{recording: (dialogue, text)}; without those for which several texts stand."""
    said, doubtful = {}, set()
    for name in sorted(game.places):
        if not name.endswith(".DOG"):
            continue
        for recording, text in recordings_of(game[name]):
            if recording + ".SB" in game.places:
                if said.setdefault(recording, (name[:-len(".DOG")].lower(), text))[1] != text:
                    doubtful.add(recording)
    return {recording: line for recording, line in said.items() if recording not in doubtful}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--game", default=GAME, help="the game's file")
    parser.add_argument("--dictionary", default=corpus.CMUDICT, help="lines WORD PHONE …")
    options = parser.parse_args()
    try:
        game = GameFile(options.game)
        said = lines_with_recordings(game)
    except FileNotFoundError:
        sys.exit(f"game_speech: '{options.game}' is missing; install the Debian package flight-of-the-amazon-queen")
    except (ValueError, IndexError, struct.error) as error:
        sys.exit(f"game_speech: '{options.game}' is not what the Debian package holds: {error}")
    known = corpus.pronunciations_of({word for _, text in said.values() for word in corpus.words_of(text) or []},
                                     options.dictionary)
    folder = os.path.abspath(os.path.join(options.out, "speech"))
    os.makedirs(folder, exist_ok=True)
    entries = []
    for recording, (dialogue, text) in said.items():
        words = corpus.words_of(text)
        if not words or any(word not in known for word in words):
            continue
        path = os.path.join(folder, recording + ".mp3")
        with open(path, "wb") as file:
            file.write(game[recording + ".SB"])
        speaker = f"{dialogue}-{recording[6].lower()}"
        entries.append((f"{speaker}-{recording}", speaker, path, words))
    corpus.write_data_dir(options.out, entries)
    vocabulary = {word for _, _, _, words in entries for word in words}
    corpus.write_lines(os.path.join(options.out, "vocabulary"), sorted(vocabulary))
    print(f"game_speech: {len(entries)} of {len(said)} lines, {len(vocabulary)} words")


if __name__ == "__main__":
    main()
