"""decode, align and check_corpus do what the commands do: the same files, byte by byte."""

import json
import os
import pathlib
import unittest

import package
from small_system import RATE, must, run, wav_bytes
from system import SystemTest

antiphon = package.optional("antiphon")
VARIES = ("cpu_seconds", "wall_seconds", "seconds", "real_time_factor", "stages")


def comparable(summary):
    """Without what two runs do not have in common."""
    return {name: value for name, value in summary.items() if name not in VARIES}


@package.need("antiphon")
class Corpus(SystemTest):
    def setUp(self):
        self.model, self.graph, self.lexicon = (self.root / name for name in ("net/model.safetensors", "graph",
                                                                              "lexicon.txt"))
        self.corpus = self.root / "corpus"
        self.folder = self.root / self.id().rsplit(".", 1)[-1]
        self.ours, self.theirs = self.folder / "ours", self.folder / "theirs"

    def check_files(self, *names):
        for name in names:
            ours = (self.ours / name).read_bytes()
            self.assertTrue(ours, name)
            self.assertEqual(ours, (self.theirs / name).read_bytes(), name)

    def test_a_decoding_is_the_commands(self):
        found = antiphon.decode(self.model, self.corpus, self.ours, graph=self.graph, nbest=3, beam=11, threads=1,
                                nnet={"precision": "int8", "lazy": True}, word_penalty=None)
        must("decode", "--model", self.model, "--graph", self.graph, self.corpus, self.theirs, "--nbest", 3, "--beam",
             11, "--nnet.precision", "int8", "--nnet.lazy")
        self.check_files("text", "words.ctm", "phones.ctm", "results.jsonl", "nbest.txt", "lattices.gz")
        told = json.loads((self.theirs / "summary.json").read_text())
        self.assertEqual(comparable(found.summary), comparable(told))
        self.assertEqual(found.summary, json.loads((self.ours / "summary.json").read_text()))
        self.assertEqual((found.text, found.results), (str(self.ours / "text"), str(self.ours / "results.jsonl")))
        self.assertEqual((found.utterances, found.errors.words, found.tuned), (24, 72, None))
        self.assertEqual(found.errors.rate, told["score"]["error_rate"])
        self.assertEqual((found.errors.interval_low, found.errors.interval_high),
                         (told["score"]["interval"]["low"], told["score"]["interval"]["high"]))
        self.assertEqual(found.output_share, told["output_share"])
        self.assertAlmostEqual(found.real_time_factor, found.cpu_time / found.speech)
        self.assertLess(found.errors.rate, 0.5)

    def test_words_are_a_recognizers(self):
        """Of an utterance that is all that its speaker says."""
        recording = self.corpus / "s1-u05.wav"
        found = antiphon.decode(self.model, recording, self.ours, graph=self.graph)
        said = antiphon.Recognizer(self.model, self.graph).recognize(recording)
        line, = pathlib.Path(found.results).read_text().splitlines()
        words = json.loads(line)["words"]
        self.assertTrue(words)
        self.assertEqual([(w["word"], w["start"], w["confidence"]) for w in words],
                         [(w.word, round(w.start, 2), w.confidence) for w in said.words])
        self.assertIsNone(found.errors)

    def test_weights_are_chosen_and_taken(self):
        tuned = antiphon.decode(self.model, self.corpus, self.ours, graph=self.graph, tune=True,
                                word_penalties=[0.0, 1.0]).tuned
        self.assertEqual(tuned.file, str(self.ours / "weights.toml"))
        again = antiphon.decode(self.model, self.corpus, self.folder / "again", graph=self.graph, weights=tuned.file)
        self.assertEqual((again.lm_weight, again.word_penalty, again.risk_scale),
                         (tuned.lm_weight, tuned.word_penalty, tuned.risk_scale))

    def test_an_alignment_is_the_commands(self):
        found = antiphon.align(self.corpus, self.ours, model=self.model, lexicon=self.lexicon, files=["TextGrid"],
                               align={"silence_boost": 2.0}, threads=1)
        must("align", "--data", self.corpus, "--out", self.theirs, "--model", self.model, "--lexicon", self.lexicon,
             "--files", "TextGrid", "--align.silence-boost", 2.0)
        self.check_files("words.ctm", "phones.ctm", "ali.ark", "pdf.ark", "scores.tsv", "TextGrid/s0-u00.TextGrid")
        self.assertEqual(comparable(found.summary), comparable(json.loads((self.theirs / "report.json").read_text())))
        self.assertEqual((found.utterances, found.aligned, found.partial, found.model), (24, 24, False, ""))
        self.assertEqual((found.words, found.phones, found.report),
                         tuple(str(self.ours / name) for name in ("words.ctm", "phones.ctm", "report.txt")))

    def test_a_training_is_the_commands(self):
        found = antiphon.align(self.root / "gmm", self.ours, lexicon=self.lexicon, last_stage="mono",
                               mono={"iterations": 4}, seed=3)
        must("align", "--data", self.root / "gmm", "--out", self.theirs, "--lexicon", self.lexicon, "--last-stage",
             "mono", "--mono.iterations", 4, "--seed", 3)
        self.check_files("model.safetensors", "words.ctm", "ali.ark")
        self.assertEqual(found.model, str(self.ours / "model.safetensors"))
        self.assertEqual([stage["stage"] for stage in found.summary["stages"]], ["mono"])

    def test_what_is_wrong_with_a_corpus(self):
        audio = self.folder / "audio"
        audio.mkdir(parents=True)
        for name, text in (("a", "A ZEBRA"), ("b", "B")):
            samples = (self.corpus / "s0-u00.wav").read_bytes() if name == "a" else wav_bytes([0] * RATE)
            (audio / f"{name}.wav").write_bytes(samples)
            (audio / f"{name}.txt").write_text(text)
        check = antiphon.check_corpus(audio, model=self.model, lexicon=self.lexicon)
        self.assertFalse(check.fine)
        self.assertEqual((check.utterances, check.unknown_words), (2, {"ZEBRA": 1}))
        self.assertEqual([(remark.fatal, "silent" in remark.what) for remark in check.problems], [(False, True)])
        said = run("align", "--validate", "--data", audio, "--model", self.model, "--lexicon", self.lexicon, "--out",
                   self.theirs)
        self.assertEqual((said.returncode, said.stdout), (1, check.text))
        (audio / "c.txt").write_text("A")  # of no recording
        found = antiphon.align(audio, self.ours, model=self.model, lexicon=self.lexicon)
        self.assertTrue(found.partial)
        self.assertIn("c.txt", "".join(remark.what for remark in found.left_out))
        self.assertTrue(antiphon.check_corpus(self.corpus, lexicon=self.lexicon).fine)

    def test_mistakes_have_kinds(self):
        def decode(model=self.model, data=self.corpus, graph=self.graph, **more):
            return antiphon.decode(model, data, self.ours, graph=graph, **more)

        def align(data=self.corpus, **more):
            return antiphon.align(data, self.ours, **{"model": self.model, "lexicon": self.lexicon} | more)

        damaged = self.root / "damaged.safetensors"
        damaged.write_bytes(self.model.read_bytes()[:-8])
        nowhere = self.root / "nowhere"
        for call, kind, text in (
                (lambda: decode(nbset=3), antiphon.UsageError, "'nbset' .*'nbest'"),
                (lambda: decode(nbest=-3), antiphon.UsageError, "nbest"),
                (lambda: decode(nnet={"precison": "int8"}), antiphon.UsageError, "precision"),
                (lambda: decode(config="nbest ="), antiphon.UsageError, "decoding"),
                (lambda: decode(graph=None), antiphon.UsageError, "graph"),
                (lambda: decode(seed=-1), antiphon.UsageError, "seed: expected a whole number from"),
                (lambda: decode(threads="2"), TypeError, "threads: expected a whole number, not str"),
                (lambda: decode(config=3), TypeError, "config: expected str, not int"),
                (lambda: decode(hotwords={1, 2}), TypeError, "hotwords"),
                (lambda: decode(model=damaged), antiphon.InputError, "damaged"),
                (lambda: decode(model=nowhere), FileNotFoundError, "model: no such file"),
                (lambda: decode(data=nowhere), FileNotFoundError, "data: no such file"),
                (lambda: decode(graph=nowhere), FileNotFoundError, "graph: no such file"),
                (lambda: decode(weights=nowhere), FileNotFoundError, "weights: no such file"),
                (lambda: antiphon.decode(self.model, self.corpus, self.corpus, graph=self.graph), antiphon.UsageError,
                 "its text"),
                (lambda: align(last_stag="mono"), antiphon.UsageError, "last-stage"),
                (lambda: align(align={"beam": -1}), antiphon.UsageError, "beam"),
                (lambda: align(files=["pdf"]), antiphon.UsageError, "TextGrid"),
                (lambda: align(model=damaged), antiphon.InputError, "damaged"),
                (lambda: align(lexicon=nowhere), FileNotFoundError, "lexicon: no such file"),
                (lambda: align(transcripts=nowhere), FileNotFoundError, "transcripts: no such file"),
                (lambda: align(data=3), TypeError, "data: expected a path"),
                (lambda: antiphon.check_corpus(self.corpus), antiphon.UsageError, "lexicon"),
                (lambda: antiphon.check_corpus(self.root / "gmm", lexicon=self.lexicon), antiphon.UsageError, "audio")):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()
        self.assertFalse(os.path.exists(self.ours / "text"))


if __name__ == "__main__":
    package.main()
