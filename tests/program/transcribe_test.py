"""antiphon bundle and transcribe from outside: one file that recognises, and transcripts in every format.

Usage: transcribe_test.py SOURCE-TREE PROGRAM. Cases that need packages are skipped where those are not installed
(python/requirements.txt).
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import unittest

import small_system as system
from small_system import RATE


PACKAGES = ("numpy", "soundfile", "srt", "webvtt")


class Transcribe(system.SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random_ = random.Random(4)
        cls.words = ["A", "B", "A"]
        cls.left = system.speech(cls.words, random_)
        cls.right = system.speech(["B", "A", "B"], random_)
        (cls.root / "one.wav").write_bytes(system.wav_bytes(cls.left))
        (cls.root / "call.wav").write_bytes(system.stereo_bytes(cls.left, cls.right))
        (cls.root / "same.wav").write_bytes(system.stereo_bytes(cls.left, cls.left))
        cls.bundle = cls.root / "small.antiphon"
        system.must("bundle", "--model", cls.root / "net/model.safetensors", "--graph", cls.root / "graph", "--out",
                    cls.bundle)

    def transcribe(self, *arguments):
        command = [system.PROGRAM, "transcribe", "--model", self.bundle, *arguments]
        return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=250)

    def test_prints_the_words(self):
        done = self.transcribe(self.root / "one.wav")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split(), self.words)

    def test_keeps_the_parties_of_a_call_apart(self):
        done = self.transcribe("--json", self.root / "call.wav", self.root / "same.wav")
        call, same = json.loads(done.stdout)["recordings"]
        self.assertEqual([channel["text"].split() for channel in call["channels"]], [self.words, ["B", "A", "B"]])
        self.assertEqual([channel["recording"] for channel in call["channels"]], ["call-A", "call-B"])
        self.assertEqual([channel["text"].split() for channel in same["channels"]], [self.words])

    def test_keeps_apart_who_is_silent_or_alike_at_first(self):
        """A party that says nothing for more than a minute; a minute of the same on both sides; one side alone."""
        minute = [0] * 61 * RATE
        ring = system.speech(list("AB"), random.Random(8)) + minute
        for name, left, right, expected in (
                ("waits", self.left + minute, minute + self.right, ["A B A", "B A B"]),
                ("rings", ring + self.left + [0] * 2 * len(self.right), ring + [0] * len(self.left) + 2 * self.right,
                 ["A", "B A B"]),
                ("alone", self.left, [], ["A B A"])):
            (self.root / f"{name}.wav").write_bytes(system.stereo_bytes(left, right))
            done = self.transcribe("--json", self.root / f"{name}.wav")
            self.assertEqual(done.returncode, 0, done.stderr)
            channels = json.loads(done.stdout)["recordings"][0]["channels"]
            self.assertEqual(len(channels), len(expected), name)
            for channel, words in zip(channels, expected):
                self.assertIn(words, channel["text"], name)

    def test_writes_every_format(self):
        out = self.root / "out"
        done = self.transcribe("--srt", "--vtt", "--write", "text,json,ctm,TextGrid", "--out", out, self.root / "one.wav")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(path.name for path in out.iterdir()),
                         ["one.TextGrid", "one.ctm", "one.json", "one.srt", "one.txt", "one.vtt"])
        self.assertEqual((out / "one.txt").read_text().split(), self.words)
        self.assertRegex((out / "one.srt").read_text(), r"\A1\n00:00:0\d,\d{3} --> 00:00:0\d,\d{3}\nA B A\n")
        self.assertEqual(len(re.findall(r'text = "[AB]"', (out / "one.TextGrid").read_text())), 3)

    def test_transcripts_by_hand_are_not_replaced(self):
        folder = self.root / "by_hand"
        folder.mkdir()
        for name in ("one", "two"):
            shutil.copy(self.root / "one.wav", folder / f"{name}.wav")
        (folder / "one.txt").write_text("by hand\n")
        done = self.transcribe("--srt", "--write", "text", folder)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"'{folder / 'one.txt'}' is there already", done.stderr)
        self.assertEqual((folder / "one.txt").read_text(), "by hand\n")
        self.assertEqual(done.stdout.splitlines(), [str(folder / "two.txt"), str(folder / "two.srt")])
        done = self.transcribe("--srt", folder)  # nobody writes those by hand
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.transcribe("--write", "text", "--overwrite", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((folder / "one.txt").read_text().split(), self.words)

    @unittest.skipUnless(system.has("soundfile") and system.has("numpy"), "soundfile and numpy write MP3")
    def test_an_mp3_has_the_words_of_its_wav(self):
        import numpy  # pylint: disable=import-outside-toplevel
        import soundfile  # pylint: disable=import-outside-toplevel
        if "MP3" not in soundfile.available_formats():
            self.skipTest("this libsndfile writes no MP3")
        soundfile.write(self.root / "talk.mp3", numpy.array(self.left, dtype="int16"), RATE)
        self.assertNotEqual((self.root / "talk.mp3").read_bytes()[:4], b"RIFF")
        done = self.transcribe("--json", self.root / "one.wav", self.root / "talk.mp3")
        self.assertEqual(done.returncode, 0, done.stderr)
        wav, mp3 = [recording["channels"][0]["words"] for recording in json.loads(done.stdout)["recordings"]]
        self.assertEqual([word["word"] for word in mp3], self.words)
        for of_mp3, of_wav in zip(mp3, wav):  # a frame of MP3 at this rate takes 0.07 s
            self.assertAlmostEqual(of_mp3["start"], of_wav["start"], delta=0.16)

    @unittest.skipUnless(system.has("srt") and system.has("webvtt"), "srt and webvtt-py read subtitles")
    def test_subtitles_say_to_other_readers_what_the_json_says(self):
        import srt  # pylint: disable=import-outside-toplevel
        import webvtt  # pylint: disable=import-outside-toplevel
        random_, out = random.Random(9), self.root / "subtitles"
        noise = [int(random_.gauss(0, 40)) for _ in range(2 * RATE)]
        samples = [sample for words in ("ABBA", 20 * "AB", "B") for sample in system.speech(list(words), random_) + noise]
        (self.root / "talk.wav").write_bytes(system.wav_bytes(samples))
        done = self.transcribe("--write", "srt,vtt,json", "--out", out, self.root / "talk.wav")
        self.assertEqual(done.returncode, 0, done.stderr)
        words = json.loads((out / "talk.json").read_text())["words"]
        by_srt = [(cue.start.total_seconds(), cue.end.total_seconds(), cue.content)
                  for cue in srt.parse((out / "talk.srt").read_text())]
        by_vtt = [(cue.start_in_seconds + cue.start_time.milliseconds / 1000,
                   cue.end_in_seconds + cue.end_time.milliseconds / 1000, cue.text)
                  for cue in webvtt.read(out / "talk.vtt")]
        self.assertEqual(by_srt, by_vtt)
        self.assertGreater(len(by_srt), 3)
        following = iter(words)
        for start, end, text in by_srt:
            spoken = [next(following) for _ in text.split()]
            self.assertEqual(text.split(), [word["word"] for word in spoken])
            self.assertAlmostEqual(start, spoken[0]["start"], delta=0.0055)
            # Short ones stay for a second, if nothing follows.
            self.assertAlmostEqual(end, max(spoken[-1]["end"], min(end, spoken[0]["start"] + 1)), delta=0.0055)
        self.assertEqual(list(following), [])

    def test_a_folder_is_the_recordings_in_it(self):
        folder = self.root / "folder"
        (folder / "late").mkdir(parents=True)
        shutil.copy(self.root / "one.wav", folder / "late/b.wav")
        shutil.copy(self.root / "call.wav", folder / "a.wav")
        (folder / "notes.txt").write_text("A B\n")
        done = self.transcribe("--format", "json", folder, self.root / "one.wav")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([r["recording"] for r in json.loads(done.stdout)], ["a-A", "a-B", "b", "one"])
        done = self.transcribe("--srt", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(),
                         [str(folder / name) for name in ("a-A.srt", "a-B.srt", "late/b.srt")])
        # Of one name: told apart by their folders where they stand beside each other, and called what they are in files.
        shutil.copy(self.root / "one.wav", self.root / "b.wav")
        done = self.transcribe("--format", "json", folder / "late/b.wav", folder / "a.wav", folder / "../b.wav")
        self.assertEqual([r["recording"] for r in json.loads(done.stdout)],
                         [str(folder / "late/b"), "a-A", "a-B", str(self.root / "b")], done.stderr)
        done = self.transcribe("--srt", folder / "late/b.wav", self.root / "b.wav")
        self.assertEqual(done.stdout.splitlines(), [str(folder / "late/b.srt"), str(self.root / "b.srt")], done.stderr)
        (self.root / "empty").mkdir()
        done = self.transcribe(self.root / "empty")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("holds no audio files", done.stderr)

    def test_a_format_to_print_beside_files_is_wrong_usage(self):
        done = self.transcribe("--srt", "--format", "json", "--out", self.root / "none", self.root / "one.wav")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("--write json", done.stderr)

    def test_several_recordings_make_one_document_or_none(self):
        one, call = self.root / "one.wav", self.root / "call.wav"
        done = self.transcribe("--format", "json", one, self.root / "none.wav", call)
        self.assertEqual(done.returncode, 1, done.stderr)
        recordings = json.loads(done.stdout)
        self.assertEqual([(r["recording"], r["text"].split()) for r in recordings],
                         [("one", self.words), ("call-A", self.words), ("call-B", ["B", "A", "B"])])
        self.assertEqual([r["recording"] for r in json.loads(self.transcribe("--format", "json", call).stdout)],
                         ["call-A", "call-B"])
        self.assertEqual(json.loads(self.transcribe("--format", "json", one).stdout), recordings[0])
        self.assertEqual(json.loads(self.transcribe("--format", "json", self.root / "none.wav", self.root / "no").stdout), [])
        lines = [line.split() for line in self.transcribe("--format", "ctm", one, call).stdout.splitlines()]
        self.assertEqual([line[0] for line in lines], 3 * ["one"] + 3 * ["call-A"] + 3 * ["call-B"])
        self.assertEqual([line[4] for line in lines], self.words + self.words + ["B", "A", "B"])
        for name in ("srt", "vtt", "TextGrid"):
            with self.subTest(format=name):
                done = self.transcribe("--format", name, one, call)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(f"--write {name}", done.stderr)
                done = self.transcribe("--format", name, call)
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertIn("--channels mean", done.stderr)

    @unittest.skipUnless(all(map(system.has, ("srt", "webvtt", "textgrid"))), "srt, webvtt-py and textgrid read documents")
    def test_what_is_printed_is_a_document_to_other_readers(self):
        import srt  # pylint: disable=import-outside-toplevel
        import textgrid  # pylint: disable=import-outside-toplevel
        import webvtt  # pylint: disable=import-outside-toplevel
        for name, words in (("srt", lambda path: [c.content for c in srt.parse(path.read_text())]),
                            ("vtt", lambda path: [c.text for c in webvtt.read(path)]),
                            ("TextGrid", lambda path: [i.mark for i in textgrid.TextGrid.fromFile(path)[0] if i.mark])):
            done = self.transcribe("--format", name, self.root / "one.wav")
            self.assertEqual(done.returncode, 0, done.stderr)
            path = self.root / f"printed.{name}"
            path.write_text(done.stdout)
            self.assertEqual(" ".join(words(path)).split(), self.words)

    def test_words_do_not_depend_on_who_has_the_cores(self):
        """A long recording beside short ones, whose cores it gets when they are through."""
        random_ = random.Random(12)
        (self.root / "lecture.wav").write_bytes(system.wav_bytes(system.speech([random_.choice("AB") for _ in range(250)],
                                                                               random_)))
        files = [self.root / f"{name}.wav" for name in ("lecture", "one", "call", "same")]
        alone = self.transcribe("--json", "--threads", 1, *files)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertEqual(self.transcribe("--json", "--threads", 3, *files).stdout, alone.stdout)

    def test_help_of_bundle_names_what_goes_into_it(self):
        told = system.must("help", "bundle").stdout
        for option in ("--model", "--g2p", "--vad", "--written"):
            self.assertIn(option, told)

    def test_a_folder_without_files_for_it_is_wrong_usage(self):
        for more, advice in (((), "--write text"), (("--format", "srt"), "--write srt")):
            done = self.transcribe("--out", self.root / "nothing", *more, self.root / "one.wav")
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(advice, done.stderr)
            self.assertFalse((self.root / "nothing").exists())

    def test_writes_as_people_write_by_rules_and_pauses(self):
        (self.root / "tones.rules").write_text('written = "a b":"AB" | "b":"bee" <1>\n')
        system.must("written", "rules", self.root / "tones.rules", self.root / "tones.fst")
        plain = json.loads(self.transcribe("--json", self.root / "one.wav").stdout)["recordings"][0]["channels"][0]
        done = self.transcribe("--json", "--written", self.root / "tones.fst", self.root / "one.wav")
        self.assertEqual(done.returncode, 0, done.stderr)
        written = json.loads(done.stdout)["recordings"][0]["channels"][0]
        self.assertEqual([word["word"] for word in written["words"]], ["AB", "a."])
        self.assertEqual(written["words"][0]["start"], plain["words"][0]["start"])
        self.assertEqual(written["words"][0]["end"], plain["words"][1]["end"])
        self.assertEqual(written["words"][1]["end"], plain["words"][2]["end"])
        refused = self.transcribe("--written", "bundle", self.root / "one.wav")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("the bundle has no written form", refused.stderr)
        own = self.root / "own.antiphon"
        system.must("bundle", "--model", self.root / "net/model.safetensors", "--graph", self.root / "graph", "--written",
                    self.root / "tones.fst", "--out", own)
        done = system.must("transcribe", "--model", own, "--written", "bundle", self.root / "one.wav")
        self.assertEqual(done.stdout, "AB a.\n")
        system.must("decode", "--model", own, "--written", "bundle", self.root / "one.wav", self.root / "decoded")
        self.assertEqual((self.root / "decoded/written").read_text(), "one AB a.\n")
        heard = system.must("listen", "--model", own, "--written", "bundle", self.root / "one.wav").stdout.splitlines()
        last = json.loads(heard[-1])
        self.assertEqual(last["text"].split(), self.words)
        self.assertEqual([word["word"] for word in last["written_words"]], last["written"].split())
        self.assertEqual(last["written"], "AB a.")

    def test_goes_on_after_what_cannot_be_read(self):
        (self.root / "noise.m4a").write_bytes(bytes(random.Random(6).randrange(256) for _ in range(5000)))
        (self.root / "empty.wav").write_bytes(b"")
        (self.root / "silent.wav").write_bytes(system.wav_bytes([0] * 5 * RATE))
        done = self.transcribe(self.root / "noise.m4a", self.root / "empty.wav", self.root / "none.wav",
                               self.root / "silent.wav", self.root / "one.wav")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.split()[-3:], self.words)
        for name in ("noise.m4a", "empty.wav", "none.wav", "silent.wav"):
            self.assertIn(name, done.stderr)

    def test_says_once_what_is_wrong_with_the_sound(self):
        """A band that is narrower than the model's, in a folder full of it; a recording that is clipped."""
        folder = self.root / "telephone"
        folder.mkdir()
        for name in "abc":
            (folder / f"{name}.wav").write_bytes(system.wav_bytes(self.left[::2], rate=RATE // 2))
        loud = [max(-32768, min(32767, 100 * sample)) for sample in self.left]
        (self.root / "loud.wav").write_bytes(system.wav_bytes(loud))
        done = self.transcribe("--json", folder, self.root / "loud.wav", self.root / "one.wav")
        self.assertEqual(done.returncode, 0, done.stderr)
        narrow = [line for line in done.stderr.splitlines() if "nothing is heard above" in line]
        self.assertEqual(len(narrow), 1, done.stderr)
        self.assertIn("a and 2 others", narrow[0])
        self.assertEqual(sum("clipped" in line for line in done.stderr.splitlines()), 1, done.stderr)
        remarks = [recording["channels"][0].get("audio_remarks", []) for recording in json.loads(done.stdout)["recordings"]]
        self.assertEqual([len(said) for said in remarks], [1, 1, 1, 1, 0])
        self.assertIn("clipped", remarks[3][0])

    @unittest.skipUnless(shutil.which("ffmpeg"), "without ffmpeg only what libsndfile reads is transcribed")
    def test_reads_what_ffmpeg_reads(self):
        """Sound in containers of video, as telephones record it; a film without sound has no words and stops nothing."""
        wav, picture = self.root / "one.wav", ["-f", "lavfi", "-i", "color=size=32x32:rate=5:duration=3"]
        for name, sources in (("talk.m4a", ["-i", wav]), ("film.mp4", [*picture, "-i", wav, "-c:v", "mpeg4"]),
                              ("talk.mka", ["-i", wav, "-c:a", "flac"]), ("silent.mp4", [*picture, "-c:v", "mpeg4"])):
            subprocess.run(["ffmpeg", "-v", "error", *map(str, sources), str(self.root / name)], check=True)
        done = self.transcribe("--json", *(self.root / name for name in ("talk.m4a", "silent.mp4", "film.mp4", "talk.mka")))
        self.assertEqual(done.returncode, 1)
        self.assertEqual([recording["channels"][0]["text"].split() for recording in json.loads(done.stdout)["recordings"]
                          if recording.get("channels")], 3 * [self.words])
        about_the_film = [line for line in done.stderr.splitlines() if "silent.mp4" in line]
        self.assertEqual(len(about_the_film), 1, done.stderr)
        self.assertIn("no sound", about_the_film[0])

    @unittest.skipUnless(shutil.which("ffmpeg"), "without ffmpeg only what libsndfile reads is read")
    def test_every_command_reads_what_ffmpeg_reads(self):
        """Lossless sound in m4a gives what its WAV gives, whoever reads it; segments far into it, too."""
        wavs, m4as = self.root / "wavs", self.root / "m4as"
        random_ = random.Random(13)
        words = [random_.choice("AB") for _ in range(160)]  # of 40 s
        for folder in (wavs, m4as):
            folder.mkdir()
            (folder / "talk.txt").write_text(" ".join(words) + "\n")
            (folder / "double.txt").write_text(" ".join(self.words) + "\n")
        (wavs / "talk.wav").write_bytes(system.wav_bytes(system.speech(words, random_)))
        subprocess.run(["ffmpeg", "-v", "error", "-i", wavs / "talk.wav", "-c:a", "alac", m4as / "talk.m4a"], check=True)
        (m4as / "double.wav").write_bytes((self.root / "one.wav").read_bytes())
        (m4as / "double.m4a").write_bytes(b"not heard, as the file beside it needs no ffmpeg")
        (wavs / "double.wav").write_bytes((self.root / "one.wav").read_bytes())
        out = self.root / "foreign"
        model = ("--model", self.bundle)
        table = self.root / "talk.csv"
        table.write_text("file,text,start,end\ntalk,A B,1.0,3.0\ntalk,B A,32.0,35.5\ntalk,A,36.25,38\n")
        for place in (wavs, m4as):
            told = system.must("decode", *model, place, out / place.name / "decode").stderr
            self.assertEqual("1 file of a format that needs ffmpeg left out" in told, place == m4as, told)
            system.must("align", *model, "--data", place, "--lexicon", self.root / "lexicon.txt", "--gaps", "none", "--out",
                        out / place.name / "align")
            system.must("prepare", place, table, out / place.name / "data")
            checked = system.must("prepare", "--check", out / place.name / "data")
            self.assertIn("3 utterances", checked.stdout)
            system.must("features", out / place.name / "data", "--out", out / place.name / "feats", "--sample-rate", RATE)
        self.assertIn("talk.m4a", (out / "m4as/data/wav.scp").read_text())
        for name in ("decode/text", "align/words.ctm", "feats/feats.ark"):
            self.assertEqual((out / "m4as" / name).read_bytes(), (out / "wavs" / name).read_bytes(), name)
        heard = [[json.loads(line)["text"] for line in system.must("listen", *model, path).stdout.splitlines()]
                 for path in (wavs / "talk.wav", m4as / "talk.m4a")]
        self.assertEqual(heard[0], heard[1])
        texts = [self.transcribe(path).stdout for path in (wavs / "talk.wav", m4as / "talk.m4a")]
        self.assertEqual(texts[0], texts[1])
        nothing = {**os.environ, "PATH": "/nonexistent"}
        refused = subprocess.run([system.PROGRAM, "decode", "--model", self.bundle, m4as / "talk.m4a", out / "none"],
                                 capture_output=True, text=True, timeout=250, env=nothing)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("ffmpeg, which may be able to read it, is not installed", refused.stderr)

    def test_ctrl_c_keeps_what_is_done(self):
        folder = self.root / "stopped"
        folder.mkdir()
        os.mkfifo(folder / "began")
        # Begins to read the second file when the first is done, and never ends.
        stub = folder / "ffmpeg"
        stub.write_text(f"#!/bin/sh\necho began > '{folder}/began'\nexec /bin/sleep 100\n")
        stub.chmod(0o755)
        (folder / "endless.m4a").write_bytes(b"what libsndfile does not read")
        command = [system.PROGRAM, "transcribe", "--model", self.bundle, "--threads", "1", "--write", "text,json", "--out",
                   folder / "out", self.root / "one.wav", folder / "endless.m4a"]
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=environment)
        with process:
            self.assertEqual((folder / "began").read_text(), "began\n")
            process.send_signal(signal.SIGINT)
            try:
                _, err = process.communicate(timeout=50)
            finally:
                process.kill()
        self.assertEqual(process.returncode, 3, err)
        self.assertEqual((folder / "out/one.txt").read_text().split(), self.words)
        self.assertEqual(json.loads((folder / "out/one.json").read_text())["text"].split(), self.words)
        self.assertEqual(sorted(path.name for path in (folder / "out").iterdir()), ["one.json", "one.txt"])

    def test_the_card_says_what_was_measured(self):
        exp = self.root / "exp"
        system.must("decode", "--model", self.root / "net/model.safetensors", "--graph", self.root / "graph", "--out",
                    exp / "decode-test", self.root / "corpus")
        system.must("bundle", "--experiment", exp, "--model", self.root / "net/model.safetensors", "--graph",
                    self.root / "graph", "--out", self.root / "measured")
        card = json.loads((self.root / "measured/card.json").read_text())
        summary = json.loads((exp / "decode-test/summary.json").read_text())
        self.assertEqual(card["test"], summary["score"])
        self.assertEqual(card["speed"], {key: summary[key] for key in ("real_time_factor", "speech_seconds")})
        self.assertGreater(card["speed"]["speech_seconds"], 10)
        told = json.loads(system.must("info", "--json", self.bundle).stdout)
        self.assertIsNone(told["speed"])
        self.assertEqual((told["sample_rate_hz"], told["graph"], told["voice_activity"]), (RATE, "static", False))
        self.assertGreater(told["phones"], 1)
        lines = [line.split(None, 1) for line in system.must("info", self.root / "measured").stdout.splitlines()]
        shown = {line[0]: line[-1] for line in lines}
        for file in card["files"]:
            self.assertEqual(shown[file["name"]], f"bytes {file['bytes']}, checksum {file['checksum']}")
        self.assertEqual(shown["speech_seconds"], f"{summary['speech_seconds']:.5g}")

    def test_refuses_what_is_no_recogniser(self):
        damaged = self.root / "damaged.antiphon"
        damaged.write_bytes(self.bundle.read_bytes()[:2000])
        for place, reason in ((damaged, "cut short"), (self.root / "none.antiphon", f"no model or recogniser '{self.root}/none.antiphon'"),
                              (self.root, "card.json"), (self.root / "net/model.safetensors", "graph")):
            done = subprocess.run([system.PROGRAM, "transcribe", "--model", str(place), str(self.root / "one.wav")],
                                  capture_output=True, text=True, timeout=250)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(reason, done.stderr)

    def test_does_not_let_two_recordings_write_one_file(self):
        (self.root / "calls").mkdir()
        (self.root / "calls/one.wav").write_bytes((self.root / "one.wav").read_bytes())
        done = self.transcribe("--srt", "--out", self.root / "x", self.root / "one.wav", self.root / "calls/one.wav")
        self.assertEqual(done.returncode, 2)
        self.assertFalse((self.root / "x").exists())

    def test_a_channel_does_not_write_over_a_recording(self):
        folder = self.root / "named"
        folder.mkdir()
        for name, source in (("call", "call"), ("call-A", "one"), ("one", "one"), ("one-B", "call"), ("same", "same"),
                             ("same-A", "one")):
            (folder / f"{name}.wav").write_bytes((self.root / f"{source}.wav").read_bytes())
        for files in (("call", "call-A"), ("call-A", "call")):
            done = self.transcribe("--srt", *(folder / f"{name}.wav" for name in files))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("would write the same files", done.stderr)
            self.assertEqual(list(folder.glob("*.srt")), [])
        twice = self.transcribe("--srt", folder / "one.wav", folder / "../named/one.wav")
        self.assertEqual(twice.returncode, 2)
        # One has no channels that are told apart, the other's are called otherwise.
        done = self.transcribe("--srt", *(folder / f"{name}.wav" for name in ("one", "one-B", "same", "same-A")))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({path.stem for path in folder.glob("*.srt")}, {"one", "one-B-A", "one-B-B", "same", "same-A"})


if __name__ == "__main__":
    if not all(map(system.has, PACKAGES)):
        system.go_on_where_packages_are(sys.argv[1])
    system.PROGRAM = sys.argv.pop(2)
    sys.argv.pop(1)
    unittest.main(verbosity=1)
