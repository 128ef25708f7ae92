"""antiphon samples from outside: the samples of a file, bit for bit, within limits.

Usage: samples_test.py SOURCE-TREE PROGRAM
"""

import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

import small_system as system


class Samples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        random_ = random.Random(1)
        self.samples = [random_.randrange(-32768, 32768) for _ in range(20001)]
        self.wav = self.root / "x.wav"
        self.wav.write_bytes(system.wav_bytes(self.samples))

    def run_it(self, *arguments, **more):
        return subprocess.run([system.PROGRAM, "samples", *map(str, arguments)], capture_output=True, timeout=100,
                              **({"stdin": subprocess.DEVNULL} | more))

    def test_writes_what_is_there(self):
        result = self.run_it(self.wav)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(struct.unpack(f"<{len(self.samples)}h", result.stdout), tuple(self.samples))
        result = self.run_it(self.wav, "--format", "f32", "--header")
        header, _, floats = result.stdout.partition(b"\n")
        self.assertEqual(json.loads(header), {"rate": system.RATE, "channels": 1})
        self.assertEqual(struct.unpack(f"<{len(self.samples)}f", floats), tuple(x / 32768 for x in self.samples))

    def test_reads_standard_input_within_limits(self):
        with open(self.wav, "rb") as file:
            result = self.run_it("/dev/stdin", "--max-memory", 1 << 30, "--max-seconds", 60, stdin=file)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(struct.unpack(f"<{len(self.samples)}h", result.stdout), tuple(self.samples))

    def test_converts_the_rate(self):
        result = self.run_it(self.wav, "--rate", 16000, "--header")
        header, _, samples = result.stdout.partition(b"\n")
        self.assertEqual(json.loads(header)["rate"], 16000)
        self.assertAlmostEqual(len(samples) / 2, 2 * len(self.samples), delta=1)

    def test_writes_a_part(self):
        rate = system.RATE
        result = self.run_it(self.wav, "--start", 0.5, "--end", 1.25)
        self.assertEqual(struct.unpack(f"<{rate * 3 // 4}h", result.stdout), tuple(self.samples[rate // 2:rate * 5 // 4]))
        self.assertEqual(self.run_it(self.wav, "--end", 99).stdout, self.run_it(self.wav).stdout)
        result = self.run_it(self.wav, "--start", 1)
        self.assertEqual(len(result.stdout), 2 * (len(self.samples) - rate))
        for wrong, said in ((("--start", 2, "--end", 1), b"--end"), (("--start", 99), b"--start 99 is not within")):
            result = self.run_it(self.wav, *wrong)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(said, result.stderr)

    def test_chooses_a_channel(self):
        sides = [value for sample in self.samples for value in (sample, -sample if sample > -32768 else 0)]
        stereo = bytearray(system.wav_bytes(sides))
        struct.pack_into("<HIIHH", stereo, 22, 2, system.RATE, 4 * system.RATE, 4, 16)
        self.wav.write_bytes(stereo)
        result = self.run_it(self.wav, "--channel", 0)
        self.assertEqual(struct.unpack(f"<{len(self.samples)}h", result.stdout), tuple(self.samples))
        self.assertEqual(json.loads(self.run_it(self.wav, "--header").stdout.partition(b"\n")[0])["channels"], 2)

    def test_refuses(self):
        (self.root / "text").write_text("hello")
        for status, text, arguments in ((1, b"missing.wav", [self.root / "missing.wav"]), (1, b"text", [self.root / "text"]),
                                        (1, b"channel 3", [self.wav, "--channel", 3]), (2, b"--json", [self.wav, "--json"])):
            result = self.run_it(*arguments)
            self.assertEqual((result.returncode, result.stdout), (status, b""), result.stderr)
            self.assertIn(text, result.stderr)


if __name__ == "__main__":
    system.PROGRAM = sys.argv.pop(2)
    sys.argv.pop(1)
    unittest.main(verbosity=1)
