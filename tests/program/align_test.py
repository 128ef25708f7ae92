"""antiphon align from outside: files for single utterances, measures of each, and a look at the data beforehand.

Usage: align_test.py SOURCE-TREE PROGRAM
"""

import csv
import json
import random
import re
import shutil
import sys
import unittest

import small_system as system


class Align(system.SystemTest):
    def align(self, data, out, *options):
        root = self.root
        return system.run("align", "--data", data, "--lexicon", root / "lexicon.txt", "--model",
                          root / "align/model.safetensors", "--out", root / out, *options)

    def changed(self, name, change, source="corpus"):
        """A copy of a data directory whose text lines, as words by utterance, went through `change`."""
        folder = self.root / name
        shutil.copytree(self.root / source, folder)
        lines = dict(line.split(maxsplit=1) for line in (folder / "text").read_text().splitlines())
        change(lines)
        (folder / "text").write_text("".join(f"{utt_id} {words}\n" for utt_id, words in sorted(lines.items())))
        return folder

    def scores(self, out):
        with open(self.root / out / "scores.tsv", encoding="utf-8") as file:
            return {row["utterance"]: row for row in csv.DictReader(file, delimiter="\t")}

    def test_files_per_utterance_say_what_the_tables_say(self):
        result = self.align(self.root / "gmm", "files", "--files", "TextGrid,json")
        self.assertEqual(result.returncode, 0, result.stderr)
        ctm = {}
        for line in (self.root / "files/words.ctm").read_text().splitlines():
            utt_id, _, start, duration, word = line.split()
            ctm.setdefault(utt_id, []).append((word, float(start), float(start) + float(duration)))
        self.assertEqual(len(ctm), 24)
        for folder, ending in (("TextGrid", ".TextGrid"), ("json", ".json")):
            self.assertEqual({path.name for path in (self.root / "files" / folder).iterdir()},
                             {utt_id + ending for utt_id in ctm})
        for utt_id, expected in ctm.items():
            words = json.loads((self.root / f"files/json/{utt_id}.json").read_text())["words"]
            grid = (self.root / f"files/TextGrid/{utt_id}.TextGrid").read_text()
            tier = re.search(r'name = "words".*?(?=item \[2\])', grid, re.S).group()
            intervals = [(text, float(start), float(end)) for start, end, text in re.findall(
                r'xmin = ([\d.]+)\s+xmax = ([\d.]+)\s+text = "(.*)"', tier) if text]
            for found in ([(w["word"], w["start"], w["end"]) for w in words], intervals):
                self.assertEqual([word for word, _, _ in found], [word for word, _, _ in expected])
                for (_, start, end), (_, right_start, right_end) in zip(found, expected):
                    self.assertAlmostEqual(start, right_start, delta=0.0015)
                    self.assertAlmostEqual(end, right_end, delta=0.0015)

    def test_files_that_cannot_be_are_refused_before_the_work(self):
        result = self.align(self.root / "gmm", "none", "--files", "textgrid")
        self.assertEqual(result.returncode, 2)
        self.assertIn("there are json and TextGrid", result.stderr)
        self.assertFalse((self.root / "none").exists())

    def test_wrong_text_is_found_by_its_score(self):
        def say_something_else(lines):
            lines["s1-u05"] = {"A": "B", "B": "A"}[lines["s1-u05"][0]] + lines["s1-u05"][1:]
            lines["s2-u06"] = "A B" * 40
        data = self.changed("lies", say_something_else, "gmm")
        told = {}
        for folder, out in ((data, "lies-align"), (self.root / "gmm", "truth-align")):
            result = self.align(folder, out, "--align.beam", 1000)
            self.assertEqual(result.returncode, 0, result.stderr)
            told[out] = result.stderr
        scores = self.scores("lies-align")
        self.assertEqual(len(scores), 24)
        doubtful = {utt_id for utt_id, row in scores.items() if re.search("unlike|skipped", row["remark"])}
        self.assertEqual(doubtful, {"s1-u05", "s2-u06"})
        self.assertLess(float(scores["s1-u05"]["deviation"]), -4)
        self.assertIn("skipped", scores["s2-u06"]["remark"])
        self.assertFalse([row for row in self.scores("truth-align").values() if float(row["deviation"]) < -4])
        self.assertIn("s1-u05: unlike its text", (self.root / "lies-align/report.txt").read_text())
        self.assertRegex(told["lies-align"], r"\d of 23 aligned utterances may not say their text; the first is s1-u05 "
                                             r"\(unlike its text.*\); all stand in '.*lies-align/scores.tsv'")

    def test_what_an_earlier_run_left_is_not_taken_for_the_new_one(self):
        old = self.root / "old"
        shutil.copytree(self.root / "align", old)
        transforms = [old / f"fmllr.{ending}" for ending in ("scp", "ark", "checksums.json")]
        model = (old / "model.safetensors").read_bytes()

        def spoil():
            for path in transforms:
                path.write_text("of another training\n")
        spoil()
        # Mixtures that do not adapt to speakers have no transforms.
        system.must("chain", "--alignment", old, "--data", self.root / "gmm", self.root / "old-chain")
        system.must("align", "--data", self.root / "gmm", "--lexicon", self.root / "lexicon.txt", "--out", old,
                    "--last-stage", "mono")
        self.assertFalse([path for path in transforms if path.exists()])
        self.assertEqual((old / "model.safetensors").read_bytes(), model)
        # The model that is given stays where it is.
        spoil()
        again = system.run("align", "--data", self.root / "gmm", "--lexicon", self.root / "lexicon.txt", "--model",
                           old / "model.safetensors", "--out", old)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertFalse([path for path in transforms if path.exists()])
        self.assertEqual((old / "model.safetensors").read_bytes(), model)
        # One of an earlier training is not that of the tables by another.
        self.assertEqual(self.align(self.root / "gmm", "old").returncode, 0)
        self.assertFalse((old / "model.safetensors").exists())
        # A network is none that align left.
        shutil.copy(self.root / "net/model.safetensors", old)
        self.assertEqual(self.align(self.root / "gmm", "old").returncode, 0)
        self.assertTrue((old / "model.safetensors").exists())

    def test_long_recordings_say_what_does_not_agree(self):
        random_ = random.Random(5)
        words = [random_.choice("AB") for _ in range(80)]
        before, after = system.speech(words[:40], random_), system.speech(words[40:], random_)
        foreign = system.speech(list("BBAABBAABBAA"), random_)
        talks = self.root / "talks"
        talks.mkdir()
        (talks / "exact.wav").write_bytes(system.wav_bytes(before + after))
        (talks / "exact.txt").write_text(", ".join(words).lower() + ".")
        (talks / "gaps.wav").write_bytes(system.wav_bytes(before + foreign + after))
        (talks / "gaps.lab").write_text(" ".join(words[:20] + 12 * ["A"] + words[20:]))
        result = self.align(talks, "talks-align", "--long-above", 10, "--files", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        spoken = {}
        for line in (self.root / "talks-align/words.ctm").read_text().splitlines():
            utt_id, _, start, _, word = line.split()
            spoken.setdefault(utt_id, []).append((word, float(start)))
        self.assertEqual([word for word, _ in spoken["exact"]], words)
        shift = len(foreign) / system.RATE
        for (_, start), (_, right) in zip(spoken["gaps"][-30:], spoken["exact"][-30:]):
            self.assertAlmostEqual(start, right + shift, delta=0.05)
        with open(self.root / "talks-align/unaligned.tsv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        self.assertEqual({row["utterance"] for row in rows}, {"gaps"})
        found = sum(float(row["end_s"]) - float(row["start_s"]) for row in rows if row["what"] == "speech")
        self.assertGreater(found, 0.7 * shift)
        self.assertLess(found, 2 * shift)
        left_out = [word for row in rows if row["what"] == "text" for word in row["words"].split()]
        self.assertGreaterEqual(len(left_out), 10)
        self.assertIn("are not in the text", self.scores("talks-align")["gaps"]["remark"])
        self.assertTrue(json.loads((self.root / "talks-align/json/gaps.json").read_text())["unaligned"])
        self.assertNotIn("gaps", (self.root / "talks-align/ali.scp").read_text())
        # A part without a path within the beam is left out, and not the recording.
        result = self.align(talks, "narrow-align", "--long-above", 10, "--align.beam", 1, "--align.retry-beam", 0)
        self.assertEqual(result.returncode, 0, result.stderr)
        found = (self.root / "narrow-align/words.ctm").read_text().splitlines()
        self.assertGreater(sum(line.startswith("exact ") for line in found), 70)

    def test_a_text_that_is_all_wrong_is_told_and_the_others_are_aligned(self):
        random_ = random.Random(7)
        talks = self.root / "mixed-up"
        talks.mkdir()
        for name, said, text in (("right", 40 * "AB", 40 * "AB"), ("wrong", 80 * "A", 80 * "B"),
                                 ("excerpt", 15 * "AAB", 15 * "AAB" + 160 * "B")):
            (talks / f"{name}.wav").write_bytes(system.wav_bytes(system.speech(list(said), random_)))
            (talks / f"{name}.txt").write_text(" ".join(text))
        result = self.align(talks, "mixed-up-align", "--long-above", 10)
        self.assertEqual(result.returncode, 1, result.stderr)
        told = [line for line in result.stderr.splitlines() if "wrong" in line]
        self.assertEqual(len(told), 1, result.stderr)
        self.assertRegex(told[0], r"wrong skipped: \d of the 80 words of its text were found")
        aligned = {line.split()[0] for line in (self.root / "mixed-up-align/words.ctm").read_text().splitlines()}
        self.assertEqual(aligned, {"right", "excerpt"})
        self.assertIn("skipped", self.scores("mixed-up-align")["wrong"]["remark"])
        doubts = [line for line in result.stderr.splitlines() if "may not say their text" in line]
        self.assertEqual(len(doubts), 1, result.stderr)
        self.assertRegex(doubts[0], r"1 of 2 aligned utterances .* excerpt \(.* are not said.*scores\.tsv")

    def test_validate_names_what_is_wrong_and_writes_nothing(self):
        fine = self.align(self.root / "corpus", "fine", "--validate")
        self.assertEqual(fine.returncode, 0, fine.stderr)
        self.assertIn("24 utterances", fine.stdout)
        self.assertFalse((self.root / "fine").exists())

        def spoil(lines):
            lines["s0-u00"] += " ZEBRA ZEBRA"
            lines["s1-u01"] = "A B " * 20
        data = self.changed("spoilt", spoil)
        silent = self.root / "spoilt/silent.wav"
        silent.write_bytes(system.wav_bytes([0] * system.RATE))
        scp = (data / "wav.scp").read_text()
        (data / "wav.scp").write_text(re.sub(r"(s2-u02) .*", rf"\1 {silent}", scp))
        spoilt = self.align(data, "fine", "--validate", "--json")
        self.assertEqual(spoilt.returncode, 1)
        found = json.loads(spoilt.stdout.splitlines()[-1])
        self.assertIn("what is wrong stands above", spoilt.stderr)
        self.assertEqual(found["unknown_words"], {"ZEBRA": 2})
        what = "\n".join(problem["what"] for problem in found["problems"])
        self.assertIn("'s1-u01' has 40 words", what)
        self.assertIn("'s2-u02' is silent (1.00 s", what)
        self.assertEqual(len(found["problems"]), 2, what)

        no_audio = self.align(self.root / "gmm", "fine", "--validate")
        self.assertEqual(no_audio.returncode, 2)
        self.assertIn("no audio to look at", no_audio.stderr)

    def test_what_cannot_be_read_is_left_out_and_said(self):
        """Audio with texts beside it, or with a table, of which one recording is empty or missing."""
        beside = self.root / "beside"
        beside.mkdir()
        for name, words in (("a", "A B"), ("b", "B A")):
            (beside / f"{name}.wav").write_bytes(system.wav_bytes(system.speech(words.split(), random.Random(name))))
            (beside / f"{name}.txt").write_text(words)
        table = self.root / "table.tsv"
        table.write_text("file\ttext\na.wav\tA B\nb.wav\tB A\n")
        plain = self.root / "plain"
        shutil.copytree(beside, plain)
        tabled = ("--transcripts", table)
        for number, arguments in enumerate(((beside,), (plain, *tabled))):
            data, *more = arguments
            self.assertEqual(self.align(data, f"whole{number}", *more).returncode, 0)
            check = self.align(data, "check", "--validate", *more)
            self.assertEqual(check.returncode, 0, check.stdout)
        (beside / "d.wav").write_bytes(b"")
        (beside / "d.txt").write_text("A B")
        table.write_text(table.read_text() + "nope.wav\tA B\n")
        for number, (data, name, more) in enumerate(((beside, "d.wav", ()), (plain, "nope.wav", tabled))):
            check = self.align(data, "check", "--validate", "--json", *more)
            self.assertEqual(check.returncode, 1, check.stdout)
            found = json.loads(check.stdout.splitlines()[-1])
            self.assertEqual(len(found["problems"]), 1, found)
            self.assertIn(name, str(found["problems"][0]))
            self.assertEqual(found["utterances"], 2)
            self.assertFalse((self.root / "check").exists())
            result = self.align(data, f"partial{number}", *more)
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertIn(name, result.stderr)
            self.assertIn("not aligned", result.stderr.splitlines()[-1])
            out = self.root / f"partial{number}"
            self.assertIn(name, (out / "report.txt").read_text())
            self.assertEqual(json.loads((out / "report.json").read_text())["left_out"], 1)
            self.assertEqual({line.split()[0] for line in (out / "words.ctm").read_text().splitlines()}, {"a", "b"})


if __name__ == "__main__":
    system.PROGRAM = sys.argv.pop(2)
    sys.argv.pop(1)
    unittest.main(verbosity=1)
