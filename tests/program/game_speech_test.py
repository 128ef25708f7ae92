"""recipes/scripts/game_speech.py on a made file of the game: recordings, words and speakers.

Usage: game_speech_test.py SOURCE-TREE
"""

import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()


def text_of(said):
    """As a dialogue holds it: its length, itself, filled up to 4 bytes."""
    data = bytes([len(said)]) + said.encode()
    return data + bytes(-len(data) % 4)


def side(greeting, lines):
    begin = struct.pack(">HH", 0, 0 if greeting else 1) + (text_of(greeting) if greeting else b"")
    return begin + b"".join(struct.pack(">HH", 0, number) + text_of(said) for number, said in lines)


def dialogue(number, player, other):
    levels = 2
    first, second = side("*FR", player), side("", other)
    header = struct.pack(">hHHHH", -levels, 2, number, len(player), len(other)) + bytes(12)
    header += struct.pack(">H", 32 + 96 * levels + len(first)) + bytes(8)
    return bytes(20) + header + bytes(96 * levels) + first + second


def game_of(files):
    table, data = b"", b""
    begin = 15 + 21 * len(files)
    for name, contents in files.items():
        table += struct.pack(">12sBII", name.encode(), 1, begin + len(data), len(contents))
        data += contents
    return b"QTBLCEM10\0\0\0\1" + struct.pack(">H", len(files)) + table + data


class GameSpeech(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "words.dict").write_text("hello HH\nhow HH\nare AA\nyou Y\ngo G\naway AH\nnow N\nyes Y\n")

    def run_it(self, game):
        (self.root / "game").write_bytes(game)
        return subprocess.run(["python3", SOURCE / "recipes/scripts/game_speech.py", "--out", self.root / "out", "--game",
                               self.root / "game", "--dictionary", self.root / "words.dict"],
                              capture_output=True, text=True, timeout=100, check=False)

    def test_each_recording_has_its_words(self):
        many = "".join(f"*0{part % 10}go" for part in range(10))  # "go" is the parts 2 to 11
        lines = dialogue(7, [(0x1f, "Hello!*01How are you?"), (6, "Go *12 away"), (9, "Hrmpf, yes.")],
                         [(0x1f, "*FLGo away*02now"), (0xa, many), (0xb, "yes"), (0xb, "now")])
        sounds = ["07001FJ1", "07001FJ2", "070006J2", "070009J1", "07001FP2", "07001FP3", "07000APB", "07000BP1"]
        done = self.run_it(game_of({"APE.DOG": lines} | {name + ".SB": name.encode() for name in sounds}))
        self.assertEqual(done.returncode, 0, done.stderr)
        table = dict(line.split(maxsplit=1) for line in (self.root / "out/text").read_text().splitlines())
        self.assertEqual(table, {
            "ape-j-07001FJ1": "hello", "ape-j-07001FJ2": "how are you", "ape-j-070006J2": "away",
            "ape-p-07001FP2": "go away", "ape-p-07001FP3": "now", "ape-p-07000APB": "go",
        }, "an unknown word, and a recording with two texts, are left out")
        self.assertIn("ape-p-07000APB ape-p\n", (self.root / "out/utt2spk").read_text())
        self.assertEqual((self.root / "out/speech/07001FJ2.mp3").read_bytes(), b"07001FJ2")
        self.assertEqual((self.root / "out/vocabulary").read_text().split(), "are away go hello how now you".split())

    def test_refuses_another_file(self):
        whole = game_of({"APE.DOG": dialogue(7, [(6, "Go")], []), "070006J1.SB": b"x"})
        for game in (b"", b"something else", whole[:30], whole.replace(b"\0\0\0\1", b"\0\0\0\2", 1)):
            done = self.run_it(game)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("is not what the Debian package holds", done.stderr)
            self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
