"""A newcomer's day: recordings as they come, and what the program says of them.

Usage: newcomer_test.py SOURCE-TREE PROGRAM
"""

import json
import pathlib
import random
import re
import struct
import sys
import tempfile
import unittest

import small_system
from small_system import RATE, must, run, speech, wav_bytes

SOURCES = pathlib.Path()


def stereo_bytes(left, right, rate=RATE):
    samples = [x for pair in zip(left, right) for x in pair]
    data = struct.pack(f"<{len(samples)}h", *samples)
    header = struct.pack("<IHHIIHH", 16, 1, 2, rate, rate * 4, 4, 16)
    chunks = b"WAVEfmt " + header + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks


class Preparation(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.temporary.name)
        (self.root / "audio").mkdir()
        for name in ("one", "two", "cafe"):
            (self.root / "audio" / f"{name}.wav").write_bytes(wav_bytes(speech("A", random.Random(name))))

    def tearDown(self):
        self.temporary.cleanup()

    def test_words_in_two_forms_of_unicode_are_one_word(self):
        (self.root / "t.csv").write_text("one,Café un\ntwo,Cafe\u0301 deux\ncafe,un deux\n")
        (self.root / "lexicon.txt").write_text("Cafe\u0301 k a\nun y\ndeux d\n")
        must("prepare", self.root / "audio", self.root / "t.csv", self.root / "data")
        result = must("prepare", "--check", self.root / "data", "--lexicon", self.root / "lexicon.txt", "--json")
        self.assertEqual(json.loads(result.stdout)["oov"], [])
        self.assertEqual(json.loads(result.stdout)["vocabulary"], 3)
        (self.root / "lm.txt").write_text("Cafe\u0301 un\nCafé deux\n")
        lm = must("lm", "--text", self.root / "lm.txt", "--out", self.root / "lm.arpa", "--vocabulary",
                  self.root / "lexicon.txt", "--json")
        self.assertEqual(lm.returncode, 0)
        self.assertEqual((self.root / "lm.arpa").read_text().count("\tCafé\t"), 1)
        self.assertNotIn("e\u0301", (self.root / "lm.arpa").read_text())
        (self.root / "hypotheses").write_text("one Cafe\u0301 un\ntwo Cafe\u0301 deux\ncafe un deux\n")
        score = must("score", self.root / "data/text", self.root / "hypotheses", "--json")
        self.assertEqual(json.loads(score.stdout)["errors"], 0)

    def test_a_lexicon_of_another_case_is_told_before_align_stops(self):
        (self.root / "t.csv").write_text("one,\"One, two.\"\ntwo,Two\ncafe,UN\n")
        (self.root / "lexicon.txt").write_text("ONE w\nTWO t\nUN y\n")
        must("prepare", self.root / "audio", self.root / "t.csv", self.root / "data")
        check = run("prepare", "--check", self.root / "data", "--lexicon", self.root / "lexicon.txt")
        self.assertEqual(check.returncode, 1)
        self.assertIn("made with --case upper --strip-punctuation, 100.0 % of the running words would be known",
                      check.stdout)
        self.assertIn("3 of 4 running words are not in", check.stderr)
        must("prepare", self.root / "audio", self.root / "t.csv", self.root / "data", "--case", "upper",
             "--strip-punctuation")
        must("prepare", "--check", self.root / "data", "--lexicon", self.root / "lexicon.txt")

    def test_recordings_without_transcripts_make_a_data_directory(self):
        (self.root / "audio/sound.m4a").write_bytes(b"")
        result = must("prepare", self.root / "audio", self.root / "data")
        self.assertIn("1 files are of formats that cannot be read (.m4a)", result.stdout)
        self.assertEqual(len((self.root / "data/wav.scp").read_text().splitlines()), 3)
        self.assertFalse((self.root / "data/text").exists())
        self.assertIn("without transcripts", result.stdout)

    def test_the_rate_comes_from_the_data(self):
        must("prepare", self.root / "audio", self.root / "data")
        result = must("features", self.root / "data", self.root / "auto", "--sample-rate", "auto")
        self.assertIn("at 8000 Hz", result.stdout)
        self.assertNotIn("model", result.stderr)
        upsampled = must("features", self.root / "data", self.root / "fixed")
        self.assertIn("nothing is heard above 4000 Hz", upsampled.stderr)
        self.assertNotIn("model", upsampled.stderr)


class Audio(small_system.SystemTest):
    def recordings(self):
        random_ = random.Random(5)
        folder = self.root / "calls"
        if not folder.exists():
            folder.mkdir()
            a, b = speech("AB", random_), speech("BAB", random_)
            b += [0] * (len(a) - len(b))
            a += [0] * (len(b) - len(a))
            (folder / "call.wav").write_bytes(stereo_bytes(a, b))
            (folder / "note.wav").write_bytes(wav_bytes(speech("BA", random_)))
        return folder

    def decode(self, *arguments):
        return must("decode", "--model", self.root / "net/model.safetensors", "--graph", self.root / "graph", *arguments)

    def words(self, out):
        lines = (self.root / out / "text").read_text().splitlines()
        return {line.split()[0]: "".join(line.split()[1:]) for line in lines}

    def test_decode_takes_a_folder_and_the_parties_of_a_call(self):
        calls = self.recordings()
        self.decode(calls, self.root / "each", "--channels", "each")
        self.assertEqual(self.words("each"), {"call-A": "AB", "call-B": "BAB", "note": "BA"})
        mixed = self.decode(calls, self.root / "mixed")
        self.assertIn("1 utterances are the mean of their recordings' channels", mixed.stderr)
        self.assertEqual(set(self.words("mixed")), {"call", "note"})
        result = json.loads((self.root / "each/results.jsonl").read_text().splitlines()[0])
        for word in result["words"]:
            for key in ("start", "duration"):
                self.assertLessEqual(len(str(word[key]).partition(".")[2]), 2, word)

    def test_decode_takes_a_single_file(self):
        self.decode(self.recordings() / "note.wav", self.root / "single")
        self.assertEqual(self.words("single"), {"note": "BA"})
        for wrong, why in (("none.wav", "does not exist"), ("lexicon.txt", "cannot be read as audio")):
            result = run("decode", "--model", self.root / "net/model.safetensors", "--graph", self.root / "graph",
                         self.root / wrong, self.root / "wrong")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(why, result.stderr)
        each = run("decode", "--model", self.root / "net/model.safetensors", "--graph", self.root / "graph",
                   self.root / "corpus", self.root / "wrong", "--channels", "each")
        self.assertEqual(each.returncode, 2)

    def test_listen_takes_a_folder(self):
        result = must("listen", "--model", self.root / "net/model.safetensors", "--graph", self.root / "graph",
                      self.recordings(), "--no-partial")
        said = {}
        for line in map(json.loads, result.stdout.splitlines()):
            said.setdefault(line["recording"], []).append(line["text"])
            self.assertLessEqual(len(str(line["end"]).partition(".")[2]), 2)
        self.assertEqual("".join(said["note.wav"]).replace(" ", ""), "BA")
        self.assertEqual(set(said), {"note.wav", "call.wav"})
        self.assertIn("call.wav: the mean of 2 channels is heard", result.stderr)

    def test_align_takes_audio_with_a_table(self):
        calls = self.recordings()
        (self.root / "calls.csv").write_text("file,channel,text\ncall.wav,A,A B\ncall.wav,B,B A B\nnote.wav,,B A\n")
        must("align", "--data", calls, "--transcripts", self.root / "calls.csv", "--lexicon", self.root / "lexicon.txt",
             "--model", self.root / "align/model.safetensors", "--out", self.root / "aligned", "--align.beam", 1000)
        words = (self.root / "aligned/words.ctm").read_text().splitlines()
        for name, said in (("call-A", "AB"), ("call-B", "BAB"), ("note", "BA")):
            self.assertEqual([line.split()[4] for line in words if line.startswith(name)], list(said))
        nothing = run("align", "--data", calls, "--lexicon", self.root / "lexicon.txt", "--out", self.root / "nothing")
        self.assertEqual(nothing.returncode, 2)
        self.assertIn("--transcripts", nothing.stderr)
        # Without a model: from the data directory, at its own rate.
        must("align", "--data", self.root / "corpus", "--lexicon", self.root / "lexicon.txt", "--last-stage", "mono",
             "--out", self.root / "flat")
        self.assertIn("sample-rate = 8000", (self.root / "flat/features/front_end.toml").read_text())

    def test_json_has_times_to_the_hundredth(self):
        prepared = json.loads(must("prepare", "--check", self.root / "corpus", "--json").stdout)
        decoded = json.loads(self.decode(self.recordings(), self.root / "timed", "--json").stdout)
        times = [prepared[key] for key in ("shortest_s", "median_s", "longest_s")] + [*prepared["speaker_seconds"].values()]
        for time in [*times, *(decoded[key] for key in ("speech_seconds", "cpu_seconds", "wall_seconds"))]:
            self.assertEqual(time, round(time, 2))
        self.assertGreater(min(times), 0)
        for key, value in (("hours", prepared["hours"]), ("real_time_factor", decoded["real_time_factor"])):
            self.assertEqual(value, round(value, 4), key)

    def test_info_knows_what_the_program_writes_and_reads(self):
        root = self.root
        calls = self.recordings()
        self.decode(calls, root / "known")
        must("chain", "--alignment", root / "align", "--data", root / "gmm", root / "known-chain")
        must("lattices", "--model", root / "align/model.safetensors", "--graph", root / "graph", "--data", root / "gmm",
             "--text", root / "corpus/text", root / "known-lattices")
        must("pronunciations", "--alignment", root / "align", "--lexicon", root / "lexicon.txt", root / "known-words")
        must("targets", root / "net/model.safetensors", "--store", root / "store", "--out", root / "known-targets")
        must("train", "--config", root / "net.toml", "--store", root / "store", "--hmm",
             root / "align/model.safetensors", "--front-end", root / "feats/front_end.toml", "--out", root / "known-net",
             "--set", "parallel.method=asgd", "--set", "parallel.workers=2", "--set",
             f"parallel.arrival-log={root / 'known-order'}", "--set", "data.minibatch=64", "--set", "schedule.epochs=1")
        must("transcribe", "--model", root / "net/model.safetensors", "--graph", root / "graph", "--write",
             "srt,vtt,TextGrid", "--out", root / "known-subtitles", calls / "note.wav")
        unknown = []
        for path in [self.root, *self.root.rglob("*")]:
            # A folder that only holds others, and data of a store, which its store.json stands for.
            if path.is_dir() and not any((path / name).exists() for name in (
                    "wav.scp", "store.json", "graph.json", "config.toml", ".steps", "chain.json", "lattices.json",
                    "ali.scp", "results.jsonl", "silprob.txt")):
                continue
            if path.parent.name == "store" and path.name != "store.json":
                continue
            if path.name in ("grammar.txt", "report.txt", "warp.txt") or path.name.endswith(".lock"):
                continue
            result = run("info", path)
            if result.returncode != 0:
                unknown.append(f"{path.relative_to(self.root)}: {result.stderr.strip()[:60]}")
        self.assertEqual(unknown, [], "\n".join(unknown))
        self.assertIn("decoding graph", run("info", self.root / "graph").stdout)
        self.assertIn("training run", run("info", self.root / "net").stdout)
        self.assertIn("channels", run("info", self.root / "calls/call.wav").stdout)
        for place, expected in (
            ("known", "recognised speech"), ("known-chain", "denominator"), ("align", "alignment (antiphon align)"),
            ("known-lattices", "lattices for sequence"), ("known-lattices/lattices.ark", "arcs and final states"),
            ("known-lattices/lattices.scp", "script of lattices"), ("known-words", "pronunciations"),
            ("known-targets", "posteriors of a teacher"), ("known-order.rank-0", "order of arrivals"),
        ):
            self.assertIn(expected, run("info", self.root / place).stdout, place)


class Help(unittest.TestCase):
    def test_examples_exist(self):
        commands = re.findall(r"^  (\S+(?: \S+)?)  +\S", run("--help").stdout, re.MULTILINE)
        self.assertGreater(len(commands), 25)
        for command in commands:
            example = run(*command.split(), "--help").stdout.split("Example:")[1].split("\n\n")[0]
            for path in re.findall(r"(?:recipes|docs)/[\w./-]+", example):
                self.assertTrue((SOURCES / path).exists(), f"{command}: {path}")
        result = run("train", "--config", SOURCES / "docs/examples/train.toml", "--store", "/nonexistent", "--out",
                     "/nonexistent/out")
        self.assertIn("/nonexistent", result.stderr)
        self.assertNotIn("train.toml:", result.stderr)

    def test_common_options_come_first_and_all_on_demand(self):
        short, long = run("train", "--help").stdout, run("train", "--help", "all").stdout
        self.assertLess(short.count("\n  --"), 40)
        self.assertGreater(long.count("\n  --"), 80)
        self.assertIn("--help all", short)
        self.assertIn("Options of [schedule]", long)
        self.assertEqual(run("help", "train", "all").stdout, long)

    def test_unknown_options_show_the_nearest_three(self):
        result = run("train", "--learning-rate", "0.1")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--schedule.learning-rate", result.stderr)
        self.assertLess(len(result.stderr), 300)

    def test_recipes_are_listed_as_json_too(self):
        listed = json.loads(run("run", SOURCES / "recipes/fsdd.toml", "--list", "--json").stdout)
        self.assertEqual(listed["variables"]["sample_rate"], "8000")
        self.assertIn("features-gmm", [step["name"] for step in listed["steps"]])

    def test_plan_says_that_it_assumed_a_cluster(self):
        arguments = ("plan", "--layers", "40,2x64,100", "--hours", "1", "--devices", "2")
        self.assertIn("No cluster is given", run(*arguments).stdout)
        given = run(*arguments, "--set", "cluster.links.ranks-per-node=2")
        self.assertEqual(given.returncode, 0, given.stderr)
        self.assertNotIn("No cluster is given", given.stdout)


if __name__ == "__main__":
    SOURCES = pathlib.Path(sys.argv[1])
    small_system.PROGRAM = sys.argv[2]
    sys.argv = sys.argv[:1]
    unittest.main()
