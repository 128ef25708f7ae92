"""antiphon listen --microphone from outside: programs in PATH stand in for the sound systems' own.

Usage: microphone_test.py SOURCE-TREE PROGRAM
"""

import json
import os
import pathlib
import pty
import random
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

import small_system as system
from small_system import RATE

# Writes down what it was asked for and who it is, gives the sound, and ends as it is told to.
STUB = """#!/bin/sh
printf '%s\\n' "$0" "$@" > "{folder}/asked"
echo $$ > "{folder}/process"
/bin/cat "{sound}"
{end}
"""


class Microphone(system.SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random_ = random.Random(2)
        cls.words = ["A", "B", "B", "A", "B"]
        pause = [int(random_.gauss(0, 40)) for _ in range(RATE)]
        samples = system.speech(cls.words[:2], random_) + pause + system.speech(cls.words[2:], random_)
        (cls.root / "call.raw").write_bytes(struct.pack(f"<{len(samples)}h", *samples))

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def stub(self, name, end="exit 0", sound=None):
        file = self.folder / name
        file.write_text(STUB.format(folder=self.folder, sound=sound or self.root / "call.raw", end=end))
        file.chmod(0o755)

    def command(self, *more):
        command = [system.PROGRAM, "listen", "--model", self.root / "net/model.safetensors", "--graph",
                   self.root / "graph", "--microphone", *more]
        return [str(part) for part in command]

    def environment(self):
        return {**os.environ, "PATH": str(self.folder)}

    def listen(self, *more):
        result = subprocess.run(self.command("--no-partial", *more), stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=100, env=self.environment())
        return result.returncode, self.words_of(result.stdout.splitlines()), result.stderr

    @staticmethod
    def words_of(lines):
        return [word for line in lines if json.loads(line)["final"] for word in json.loads(line)["text"].split()]

    def asked(self):
        name, *options = (self.folder / "asked").read_text().splitlines()
        return pathlib.Path(name).name, options

    def test_hears_what_the_sound_system_records(self):
        self.stub("parec")
        self.stub("arecord", end="exit 1", sound="/dev/null")
        status, words, err = self.listen()
        self.assertEqual((status, words), (0, self.words), err)
        name, options = self.asked()
        self.assertEqual(name, "parec")
        self.assertIn(f"--rate={RATE}", options)
        self.assertFalse([option for option in options if option.startswith("--device")])
        status, words, err = self.listen("--microphone-name", "a; b $(c)")
        self.assertEqual((status, words), (0, self.words), err)
        self.assertIn("--device=a; b $(c)", self.asked()[1])

    def test_takes_the_system_that_gives_sound(self):
        self.stub("parec", end="echo 'Connection failure: Connection refused' >&2; exit 1", sound="/dev/null")
        self.stub("arecord")
        status, words, err = self.listen()
        self.assertEqual((status, words), (0, self.words), err)
        self.assertEqual(self.asked()[0], "arecord")
        status, words, err = self.listen("--microphone-system", "pulse")
        self.assertEqual((status, words), (1, []))
        self.assertIn("parec ended with status 1 ('Connection failure: Connection refused')", err)

    def test_says_what_is_missing(self):
        status, words, err = self.listen()
        self.assertEqual((status, words), (1, []))
        self.assertIn("no microphone can be heard: parec is not installed (Debian's pulseaudio-utils); "
                      "arecord is not installed (Debian's alsa-utils)", err)
        self.assertIn("--microphone-name", err)

    def test_a_device_that_goes_away_keeps_what_was_said(self):
        self.stub("parec", end="echo 'device was removed' >&2; exit 3")
        status, words, err = self.listen()
        self.assertEqual((status, words), (1, self.words))
        self.assertIn("the microphone went away: parec ended with status 3 ('device was removed')", err)

    def test_ctrl_c_ends_it_with_all_words(self):
        # The microphone is silent by then, or its samples go on arriving while the request comes.
        for end in ("exec /bin/sleep 1000", "while /usr/bin/head -c 320 /dev/zero; do /bin/sleep 0.02; done"):
            with self.subTest(end=end):
                self.stub("parec", end=end)
                process = subprocess.Popen(self.command("--no-partial"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, text=True, env=self.environment())
                with process:
                    first = process.stdout.readline()  # the second utterance is still open
                    process.send_signal(signal.SIGINT)
                    out, err = process.communicate(timeout=100)
                self.assertEqual(process.returncode, 0, err)
                words = self.words_of([first, *out.splitlines()])
                self.assertEqual(words[:2], self.words[:2])
                recorder = int((self.folder / "process").read_text())
                with self.assertRaises(ProcessLookupError):
                    os.kill(recorder, 0)

    def test_shows_the_level_on_a_terminal(self):
        self.stub("parec")
        for option, shown in (("--level-meter", True), ("--no-level-meter", False)):
            terminal, end = pty.openpty()
            result = subprocess.run(self.command(option), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=end,
                                    timeout=100, env=self.environment())
            os.close(end)
            text = b""
            while True:
                try:
                    piece = os.read(terminal, 1 << 16)
                except OSError:
                    break
                if not piece:
                    break
                text += piece
            os.close(terminal)
            self.assertEqual(result.returncode, 0, text)
            self.assertEqual(b"dB peak" in text, shown, text)


if __name__ == "__main__":
    _, system.PROGRAM = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
