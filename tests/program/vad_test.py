"""Voice activity from outside: a network learnt by the program tells tones from noise, and turns alone are decoded.

Usage: vad_test.py SOURCE-TREE PROGRAM
"""

import json
import math
import pathlib
import random
import shutil
import subprocess
import sys
import unittest

import small_system as system
from small_system import RATE

SOURCES = pathlib.Path()
NETWORK = """
data = { minibatch = 256, left-context = 3, right-context = 3 }
schedule = { epochs = 4 }
[[network.layer]]
type = "affine"
dim = 8
[[network.layer]]
type = "relu"
[[network.layer]]
type = "affine"
"""


class Vad(system.SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        root, random_ = cls.root, random.Random(2)
        must = system.must
        # As recipes/vad.toml does, but with few sounds.
        subprocess.run([sys.executable, str(SOURCES / "recipes/scripts/vad_recordings.py"), "--data", root / "corpus", "",
                        "--ctm", root / "align/phones.ctm", "", "--out", root / "recordings", "--sound-minutes", "1",
                        "--music", "", "--copies", "1"], check=True, capture_output=True)
        must("features", root / "recordings/data", root / "vad-feats", "--kind", "fbank", "--sample-rate", RATE,
             "--mel-bins", 12, "--augmented-copies", 1, "--set", "augment.noise-probability=0.5")
        must("store", "--features", root / "vad-feats/feats.scp", "--utt2spk", root / "vad-feats/utt2spk", "--alignment",
             f"ark:{root / 'recordings/labels.txt'}", "--num-pdfs", 2, "--length-tolerance", 8, "--out",
             root / "vad-store")
        (root / "vad.toml").write_text(NETWORK)
        must("train", "--config", root / "vad.toml", "--store", root / "vad-store", "--front-end",
             root / "vad-feats/front_end.toml", "--out", root / "vad")
        cls.model = root / "vad/model.safetensors"
        must("bundle", "--model", root / "net/model.safetensors", "--graph", root / "graph", "--vad", cls.model,
             "--out", root / "hears.antiphon")
        cls.words = ["A", "B", "B", "A", "B"]
        noise = [int(random_.gauss(0, 40)) for _ in range(3 * RATE)]
        samples = noise + system.speech(cls.words[:2], random_) + noise + system.speech(cls.words[2:], random_) + noise
        cls.seconds = len(samples) / RATE
        (root / "call.wav").write_bytes(system.wav_bytes(samples))
        (root / "noise.wav").write_bytes(system.wav_bytes(3 * noise))

    def turns(self, *more):
        result = system.must("vad", "--model", self.model, "--json", *more)
        return json.loads(result.stdout)["recordings"]

    @unittest.skipUnless(shutil.which("ffmpeg"), "ffmpeg is not installed")
    def test_albums_are_sounds_that_are_no_speech(self):
        album, out = self.root / "[2001] album/disc 1", self.root / "with-album"
        album.mkdir(parents=True)
        (album / "Ein Lied.wav").write_bytes(system.wav_bytes([int(3000 * math.sin(i / 5)) for i in range(50 * RATE)]))
        command = [sys.executable, str(SOURCES / "recipes/scripts/vad_recordings.py"), "--data", self.root / "corpus",
                   "--ctm", self.root / "align/phones.ctm", "--out", out, "--minutes", "0.1", "--sound-minutes", "0",
                   "--music", "", "--copies", "0", "--albums", f"{album.parent}:", "--album-minutes"]
        subprocess.run([*command, "1"], check=True, capture_output=True)
        segments = [line.split() for line in (out / "data/segments").read_text().splitlines()]
        pieces = {name: float(end) for name, _, _, end in segments if name.startswith("music-album")}
        # Two excerpts of 24 seconds and one of the 2 that are left, each at a speed of its own, cut into pieces of 16.
        seconds = {excerpt: sum(end for name, end in pieces.items() if name.startswith(f"music-album-000-{excerpt}-Ein-Lied-"))
                   for excerpt in ("00", "01", "02")}
        self.assertAlmostEqual(sum(seconds.values()), sum(pieces.values()))
        self.assertEqual(max(pieces.values()), 16.0)
        speeds = [of / seconds[excerpt] for excerpt, of in (("00", 24), ("01", 24), ("02", 2))]
        self.assertEqual(len({round(speed, 3) for speed in speeds}), 3, speeds)
        self.assertTrue(all(0.83 < speed < 1.2 for speed in speeds), speeds)
        labels = dict(line.split(None, 1) for line in (out / "labels.txt").read_text().splitlines())
        self.assertEqual(set(labels["music-album-000-01-Ein-Lied-000"].split()), {"0"})
        done = subprocess.run([*command, "1", "--albums-without", "Noch ein Lied"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--albums-without names 'Noch ein Lied'", done.stderr)
        shutil.copy(album / "Ein Lied.wav", album / "Noch ein Lied.wav")
        subprocess.run([*command, "1", "--albums-without", "Noch ein Lied"], check=True, capture_output=True)
        segments = (out / "data/segments").read_text()
        self.assertIn("Ein-Lied", segments)
        self.assertNotIn("Noch", segments)
        for what, said in ((b"no music", "cannot read '.*broken.mp3'"), (None, r"there is no recording in .*2001. album")):
            for track in album.glob("*"):
                track.unlink()
            if what is not None:
                (album / "broken.mp3").write_bytes(what)
            result = subprocess.run([*command, "1"], capture_output=True, text=True)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, said)

    def test_finds_the_turns(self):
        call, noise = self.turns(self.root / "call.wav", self.root / "noise.wav")
        self.assertEqual(len(call["turns"]), 2, call)
        self.assertEqual(noise["turns"], [])
        for turn, (begin, end) in zip(call["turns"], ((3.25, 3.7), (7.1, 7.4))):
            self.assertLess(turn["start"], begin)
            self.assertGreater(turn["end"], end)
            self.assertLess(turn["end"] - turn["start"], 3)
        self.assertAlmostEqual(call["seconds"], self.seconds, 1)
        (self.root / "talks").mkdir()
        shutil.copy(self.root / "call.wav", self.root / "talks/call.wav")
        in_folder, = self.turns(self.root / "talks")
        self.assertEqual(in_folder["file"], str(self.root / "talks/call.wav"))
        self.assertEqual(in_folder["turns"], call["turns"])

    def test_prints_lines_of_several_kinds(self):
        call = self.root / "call.wav"
        lines = {kind: system.must("vad", "--model", self.root / "hears.antiphon", "--format", kind, call).stdout.split("\n")
                 for kind in ("text", "segments", "rttm")}
        self.assertRegex(lines["text"][0], rf"^{call} \d+\.\d\d \d+\.\d\d$")
        self.assertRegex(lines["segments"][1], r"^call-00002 call \d+\.\d\d \d+\.\d\d$")
        self.assertRegex(lines["rttm"][0], r"^SPEAKER call 1 \d+\.\d{3} \d+\.\d{3} <NA> <NA> speech <NA> <NA>$")
        frames = system.must("vad", "--model", self.model, "--frames", call).stdout.splitlines()
        self.assertAlmostEqual(len(frames), self.seconds * 100, delta=3)
        probabilities = [float(line.split()[2]) for line in frames]
        self.assertLess(max(probabilities[:250]), 0.5)
        self.assertGreater(max(probabilities), 0.9)
        told, = self.turns("--frames", call)
        self.assertEqual(len(told["probabilities"]), len(probabilities))
        self.assertTrue(all(abs(p - q) < 2e-6 for p, q in zip(told["probabilities"], probabilities)))
        self.assertEqual(told["frame_shift_seconds"], 0.01)
        self.assertEqual(set(told), {"file", "seconds", "frame_shift_seconds", "probabilities"})

    def test_recordings_of_one_name_get_the_names_of_their_folders(self):
        for folder in ("a", "b"):
            (self.root / folder).mkdir()
            shutil.copy(self.root / "call.wav", self.root / folder / "call.wav")
        for kind in ("segments", "rttm"):
            lines = system.must("vad", "--model", self.model, "--format", kind, self.root / "a/call.wav",
                                self.root / "b/call.wav").stdout.splitlines()
            names = [line.split()[1].rsplit("_", 2)[1:] for line in lines]
            self.assertEqual(names, 2 * [["a", "call"]] + 2 * [["b", "call"]])
        shutil.copy(self.root / "call.wav", self.root / "a/call.wave")
        lines = system.must("vad", "--model", self.model, "--format", "rttm", self.root / "a/call.wav",
                            self.root / "a/call.wave").stdout.splitlines()
        names = [line.split()[1].rsplit("_", 1)[1] for line in lines]
        self.assertEqual(names, 2 * ["call.wav"] + 2 * ["call.wave"])
        for name in ("one two", "one_two"):  # alike as ids
            shutil.copy(self.root / "call.wav", self.root / f"a/{name}.wav")
        result = system.run("vad", "--model", self.model, "--format", "rttm", self.root / "a/one two.wav",
                            self.root / "a/one_two.wav")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("rename one of them", result.stderr)
        for again in ("a/call.wav", "a/../a/call.wav"):
            result = system.run("vad", "--model", self.model, "--format", "rttm", self.root / "a/call.wav",
                                f"{self.root}/{again}")
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(f"'{self.root}/{again}' is given twice: give it once", result.stderr)
            self.assertNotIn("rename", result.stderr)
        lines = system.must("vad", "--model", self.model, self.root / "call.wav", self.root / "call.wav").stdout
        self.assertEqual(len(lines.splitlines()), 4)

    def test_a_file_that_cannot_be_read_is_named_and_the_others_go_on(self):
        (self.root / "empty.wav").write_bytes(b"")
        result = system.run("vad", "--model", self.model, self.root / "empty.wav", self.root / "call.wav")
        self.assertEqual(result.returncode, 1)
        self.assertIn("empty.wav", result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 2)
        result = system.run("vad", "--model", self.root / "net/model.safetensors", self.root / "call.wav")
        self.assertEqual(result.returncode, 1)
        self.assertIn("recognises words, and does not tell speech from noise", result.stderr)

    def test_decodes_turns_alone_wherever_it_decodes(self):
        root = self.root
        system.must("decode", "--model", root / "hears.antiphon", root / "call.wav", root / "decoded")
        self.assertEqual((root / "decoded/text").read_text().split()[1:], self.words)
        heard = system.must("listen", "--model", root / "hears.antiphon", "--no-partial", root / "call.wav").stdout
        self.assertEqual([word for line in heard.splitlines() for word in json.loads(line)["text"].split()], self.words)
        text = system.must("transcribe", "--model", root / "hears.antiphon", root / "call.wav").stdout
        self.assertEqual(text.split(), self.words)

    def test_where_nobody_speaks_there_are_no_words(self):
        """Which transcribe tells in a line, as it tells of what it cannot read; the others go on."""
        root = self.root
        (root / "silent.wav").write_bytes(system.wav_bytes([0] * 5 * RATE))
        (root / "lonely.wav").write_bytes(system.stereo_bytes(system.speech(["A"], random.Random(3)), [0] * 5 * RATE))
        out = root / "spoken"
        result = system.run("transcribe", "--model", root / "hears.antiphon", "--write", "text", "--out", out,
                            root / "noise.wav", root / "silent.wav", root / "lonely.wav", "--channels", "each",
                            root / "call.wav")
        self.assertEqual(result.returncode, 1, result.stderr)
        for name in ("noise.wav", "silent.wav"):
            lines = [line for line in result.stderr.splitlines() if name in line]
            self.assertEqual(len(lines), 1, result.stderr)
            self.assertIn("no speech was heard", lines[0])
        self.assertEqual(sorted(path.name for path in out.iterdir()), ["call.txt", "lonely-A.txt", "lonely-B.txt"])
        self.assertEqual((out / "call.txt").read_text().split(), self.words)
        self.assertEqual(system.must("listen", "--model", root / "hears.antiphon", root / "noise.wav").stdout, "")

    def test_without_it_nothing_changes(self):
        root = self.root
        parts = ("--model", root / "net/model.safetensors", "--graph", root / "graph")
        plain = system.must("listen", *parts, root / "call.wav").stdout
        self.assertEqual(system.must("listen", "--model", root / "hears.antiphon", "--vad", "none",
                                     root / "call.wav").stdout, plain)
        self.assertNotEqual(system.must("listen", "--model", root / "hears.antiphon", root / "call.wav").stdout, plain)


class Sounds(unittest.TestCase):
    def test_are_the_same_for_a_seed_and_not_clipped(self):
        sys.path.insert(0, str(SOURCES / "recipes/scripts"))
        import vad_sounds as sounds

        for kind in sounds.KINDS:
            first, second, other = (sounds.sound(kind, random.Random(seed), 1) for seed in (1, 1, 2))
            self.assertEqual(first, second, kind)
            self.assertNotEqual(first, other, kind)
            self.assertEqual(len(first), sounds.RATE)
            self.assertTrue(0 < max(map(abs, first)) < 32768, kind)


if __name__ == "__main__":
    SOURCES, system.PROGRAM = pathlib.Path(sys.argv[1]), sys.argv[2]
    unittest.main(argv=sys.argv[:1])
