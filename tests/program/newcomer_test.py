"""A newcomer's day: recordings as they come, and what the program says of them.

Usage: newcomer_test.py SOURCE-TREE PROGRAM
"""

import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import struct
import sys
import tempfile
import unittest
import unittest.mock

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
        with unittest.mock.patch.dict(os.environ, {"PATH": "/nonexistent"}):
            result = must("prepare", self.root / "audio", self.root / "data")
        self.assertIn("1 files are of formats that cannot be read without ffmpeg (.m4a)", result.stdout)
        self.assertEqual(len((self.root / "data/wav.scp").read_text().splitlines()), 3)
        self.assertFalse((self.root / "data/text").exists())
        self.assertIn("without transcripts", result.stdout)

    def test_two_speakers_are_not_enough_for_two_held_out_sets(self):
        (self.root / "t.csv").write_text("file,text,speaker\none.wav,A,ann\ntwo.wav,A,ann\ncafe.wav,A,ben\n")
        must("prepare", self.root / "audio", self.root / "t.csv", self.root / "data")
        must("split", self.root / "data", self.root / "rest", self.root / "test")
        alone = run("split", self.root / "rest", self.root / "train", self.root / "dev")
        self.assertEqual(alone.returncode, 1, alone.stdout)
        self.assertIn("rest' has one speaker", alone.stderr)
        self.assertIn("--by utterance holds out utterances", alone.stderr)
        must("split", self.root / "data", self.root / "train", self.root / "dev", "--by", "utterance", "--fraction", 0.4)

    def test_the_rate_comes_from_the_data(self):
        must("prepare", self.root / "audio", self.root / "data")
        result = must("features", self.root / "data", self.root / "auto", "--sample-rate", "auto")
        self.assertIn("at 8000 Hz", result.stdout)
        self.assertNotIn("model", result.stderr)
        upsampled = must("features", self.root / "data", self.root / "fixed")
        self.assertIn("nothing is heard above 4000 Hz", upsampled.stderr)
        self.assertNotIn("model", upsampled.stderr)
        self.assertNotIn("late", result.stderr + upsampled.stderr)
        odd = must("features", self.root / "data", self.root / "odd", "--sample-rate", 11025)
        self.assertRegex(odd.stderr, "110 samples at 11025 Hz.* late by 2.3 ms in each second.*--sample-rate 11000")


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

    def test_words_in_two_forms_of_unicode_are_one_word_in_graph_and_decode(self):
        root = self.root / "forms"
        root.mkdir()
        composed, decomposed = "Café", "Cafe\u0301"

        def graph(name, *more):
            return json.loads(must("graph", "--model", self.root / "align/model.safetensors", *more, "--json",
                                   root / name).stdout)

        (root / "lexicon.txt").write_text(f"<SIL> SIL\n{decomposed} a\nB b\n")
        (root / "twice.txt").write_text(f"<SIL> SIL\n{decomposed} a\n{composed} a\nB b\n")
        (root / "words").write_text(f"{composed}\n{decomposed}\nB\n")
        (root / "grammar").write_text(f"0 0 {composed}\n0 0 B\n0\n")
        (root / "lm.arpa").write_text("\\data\\\nngram 1=4\n\n\\1-grams:\n-0.6 <s>\n-0.6 </s>\n" +
                                      f"-0.6 {decomposed}\n-0.6 B\n\n\\end\\\n")
        plain = ("--lexicon", self.root / "lexicon.txt", "--grammar", self.root / "grammar.txt")
        said = [graph("plain", *plain)]
        for name, *language in (("of-grammar", "--grammar", root / "grammar"), ("of-words", "--words", root / "words"),
                                ("of-lm", "--arpa", root / "lm.arpa")):
            said.append(graph(name, "--lexicon", root / "lexicon.txt", *language))
            words = [line.split()[0] for line in (root / name / "words.txt").read_text().splitlines()]
            self.assertEqual([word for word in words if word.startswith("Caf")], [composed], name)
            self.assertEqual(said[-1]["left_out_words"], 0, name)
        for result in said[:3]:
            self.assertEqual((result["states"], result["arcs"]), (said[0]["states"], said[0]["arcs"]))
        twice = run("graph", "--model", self.root / "align/model.safetensors", "--lexicon", root / "twice.txt",
                    "--words", root / "words", root / "of-twice")
        self.assertIn("twice.txt:3: word 'Café' has the same pronunciation as in line 2", twice.stderr)

        shutil.copytree(self.root / "corpus", root / "corpus")
        text = (root / "corpus/text").read_text()
        network = ("decode", "--model", self.root / "net/model.safetensors")
        expected = json.loads(must(*network, "--graph", self.root / "graph", root / "corpus", root / "as-before",
                                   "--json").stdout)["score"]
        lines = text.replace(" A", f" {decomposed}").splitlines(keepends=True)
        (root / "corpus/text").write_text("".join(lines[:12]) + "".join(lines[12:]).replace(decomposed, composed))
        (root / "allowed").write_text(f"{decomposed}\n")
        for name in ("of-grammar", "of-words"):
            scored = json.loads(must(*network, "--graph", root / name, root / "corpus", root / "decoded",
                                     "--json").stdout)["score"]
            recognised = (root / "decoded/text").read_text()
            self.assertIn(composed, recognised)
            self.assertNotIn(decomposed, recognised)
            if name == "of-grammar":  # all words of a list cost something
                self.assertEqual(scored["error_rate"], expected["error_rate"])
            must(*network, "--graph", root / name, root / "corpus", root / "decoded", "--word-list", root / "allowed")
            words = {word for line in (root / "decoded/text").read_text().splitlines() for word in line.split()[1:]}
            self.assertEqual(words, {composed})

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

    def make_what_no_recipe_makes(self):
        root = self.root
        stored = ("--store", root / "store")
        self.decode(self.recordings(), root / "known", "--nbest", 2, "--written", "english")
        must("chain", "--alignment", root / "align", "--data", root / "gmm", root / "known-chain")
        must("lattices", "--model", root / "align/model.safetensors", "--graph", root / "graph", "--data", root / "gmm",
             "--text", root / "corpus/text", root / "known-lattices")
        must("gmm-bmmi", "--model", root / "align/model.safetensors", "--data", root / "gmm", "--lattices",
             root / "known-lattices", root / "known-bmmi")
        must("pronunciations", "--alignment", root / "align", "--lexicon", root / "lexicon.txt", root / "known-words")
        must("graph", "--model", root / "align/model.safetensors", "--lexicon", root / "lexicon.txt", "--grammar",
             root / "grammar.txt", "--pronunciations", root / "known-words", "--on-the-fly", root / "known-parts")
        must("targets", root / "net/model.safetensors", *stored, "--out", root / "known-targets")
        training = root / "known.toml"
        training.write_text(f'store = "{root}/store"\nhmm = "{root}/align/model.safetensors"\nfront-end = '
                            f'"{root}/feats/front_end.toml"\ndata.minibatch = 64\nschedule.epochs = 1\n' +
                            small_system.NETWORK)
        train = ("train", "--config", training, "--out", root / "known-net", "--set", "parallel.method=asgd", "--set",
                 "parallel.workers=2", "--set", f"parallel.arrival-log={root / 'known-order'}", "--log-to",
                 f"mlflow:{root / 'known-mlflow'}")
        must(*train)
        metrics = root / "known-net/metrics.jsonl"
        metrics.write_bytes(b"?" * len(metrics.read_bytes()) + b"\n")
        must(*train, "--resume")
        # As each process of several writes one.
        (root / "known-net/logs").mkdir()
        (root / "known-net/logs/process-0.log").write_text("info process 0 begins, number 17 on 'here'\n")
        tried = ("--training", training, "--out")
        must("sweep", *tried, root / "known-sweep", "--runs", 2, "--set", "vary.schedule.learning-rate=log:0.01..0.5",
             "--set", "vary.schedule.final-learning-rate=0.1 * schedule.learning-rate")
        must("compare", *tried, root / "known-comparison", "--methods", "serial,averaging", "--workers", 2,
             "--seeds", 1)
        must("learning-rate", *tried, root / "known-rate", "--steps", 20)
        must("compress", root / "net/model.safetensors", "--method", "quantize", *stored, "--out", root / "known-small",
             "--no-retrain")
        must("adapt", root / "net/model.safetensors", *stored, "--method", "lhuc", "--out", root / "known-adapted")
        must("export", root / "net/model.safetensors", "--onnx", root / "known.onnx")
        vectors = ("--features", root / "gmm/feats.scp", "--utt2spk", root / "gmm/utt2spk", "--dim", 2, "--gaussians",
                   2)
        must("ivectors", *vectors, root / "known-vectors")
        must("ivectors", *vectors, "--online", root / "known-online-vectors")
        must("store", "--live", root / "corpus", "--front-end", root / "feats/front_end.toml", "--alignment",
             root / "align/pdf.scp", "--out", root / "known-live-store")
        must("score", root / "corpus/text", root / "corpus/text", "--alignments", root / "known-alignments")
        must("transcribe", "--model", root / "net/model.safetensors", "--graph", root / "graph", "--write",
             "srt,vtt,TextGrid", "--out", root / "known-subtitles", root / "calls/note.wav")

    def test_info_knows_what_the_program_writes_and_reads(self):
        """Every file and folder of a finished experiment, and of what other commands leave."""
        root = self.root
        must("split", root / "corpus", root / "parts/train", root / "parts/test", "--fraction", 0.25)
        must("run", SOURCES / "recipes/corpus.toml", *(word for setting in (
            f"exp={root}/experiment", f"train={root}/parts/train", f"dev={root}/parts/test", f"test={root}/parts/test",
            f"lexicon={root}/lexicon.txt", "last_stage=mono", "epochs=1", "hidden_dim=8", "hidden_layers=1",
            "speeds=[0.9]", "gmm=true") for word in ("--set", setting)))
        self.make_what_no_recipe_makes()
        told, unknown = {}, []
        places = [root, *root.rglob("*")]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as processes:
            results = list(processes.map(lambda path: run("info", path, "--json"), places))
        for path, result in zip(places, results):
            if result.returncode != 0:
                unknown.append(f"{path.relative_to(root)}: {result.stderr.strip()[:60]}")
            else:
                told[str(path.relative_to(root))] = json.loads(result.stdout)
        self.assertEqual(unknown, [], "\n".join(unknown))
        self.assertGreater(len(told), 300)
        for place, expected in (
            ("graph", "decoding graph"), ("net", "training run"), ("calls/call.wav", "audio"),
            ("corpus", "data directory"),
            ("known", "recognised speech"), ("known-chain", "denominator"), ("align", "alignment (antiphon align)"),
            ("known-lattices", "lattices for sequence"), ("known-lattices/lattices.ark", "lattices"),
            ("known-lattices/lattices.scp", "script of lattices"), ("known-words", "pronunciations"),
            ("known-targets", "posteriors of a teacher"), ("known-order.rank-0", "order of arrivals"),
            ("known-parts", "decoding graph (on the fly)"), ("known-sweep", "sweep of trainings"),
            ("known-comparison", "comparison of trainings"),
            ("feats", "features (antiphon features)"), ("known-vectors", "speaker vectors"),
            ("known-small", "compressed model"), ("known-adapted", "adaptation of a model"),
            ("known-net/metrics.jsonl.damaged", "set aside"), ("known-net/train.lock", "lock"),
            ("known-net/logs", "folder"), ("known-net/logs/process-0.log", "plain text"),
            ("known-sweep/sweep.md", "plain text"), ("store/index.bin", "part of a frame store"),
            ("experiment", "experiment of a recipe"), ("experiment/.steps", "records of a recipe's steps"),
            ("experiment/recogniser.antiphon", "recogniser"),
        ):
            self.assertIn(expected, told[place]["kind"], place)
        # Of each folder, what makes it worth a look.
        for place, key, expected in (
            ("graph", "words", 3), ("calls/call.wav", "channels", 2), ("feats", "utterances", 24),
            ("feats", "front end", {"kind": "mfcc", "sample-rate": "8000", "frame-shift-ms": "10.0"}),
            ("known-vectors", "vectors", 4), ("known-online-vectors", "utterances", 24),
            ("known-sweep", "by state", {"finished": 2}),
            ("known-comparison", "runs", {"averaging x 2": 1, "serial x 1": 1}),
            ("known-net/logs", "first entries", {"process-0.log": "plain text"}),
        ):
            self.assertEqual(told[place][key], expected, place)


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
