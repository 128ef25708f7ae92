"""antiphon adapt from outside: it adapts, it makes profiles that decode takes, and whatever it is given that it cannot use
leaves the model as it was.

Usage: adapt_test.py SOURCE-TREE PROGRAM
"""

import fcntl
import json
import random
import shutil
import sys
import unittest

import small_system as system
from small_system import RATE, must, run

SOUND_ALONE = ("--set", "adversarial.balance=false", "--set", "adversarial.learn=0")


class Adapt(system.SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.root / "net/model.safetensors"
        cls.bytes = cls.model.read_bytes()

    def tearDown(self):
        self.assertEqual(self.model.read_bytes(), self.bytes)
        shutil.rmtree(self.root / "out", ignore_errors=True)

    def adapt(self, *more, data="corpus", model=None):
        root = self.root
        return run("adapt", model or self.model, "--out", root / "out", "--set", "train.data.minibatch=64", "--set",
                   "train.schedule.epochs=2", *(("--data", root / data) if data else ()), *more)

    def decode(self, *more, model=None):
        root = self.root
        return run("decode", "--model", model or self.model, "--graph", root / "graph", root / "feats", root / "decoded",
                   *more)

    def spoil(self, change):
        folder = self.root / "spoilt"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.root / "corpus", folder)
        change(folder)
        return "spoilt"

    def assert_refused(self, result, *expected, status=1):
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        for text in expected:
            self.assertIn(text, result.stderr)
        self.assertFalse((self.root / "out/model.safetensors").exists())

    def test_adapts_and_says_what_it_cost(self):
        result = self.adapt("--graph", self.root / "graph", "--old-store", self.root / "store", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        told = json.loads(result.stdout)
        self.assertEqual([trial["rho"] for trial in told["trials"]], [0.125, 0.25, 0.5, 0.75])
        self.assertGreater(told["old"]["before"]["frames"], 0)
        self.assertEqual(told, json.loads((self.root / "out/adaptation.json").read_text()))
        self.assertEqual(self.decode(model=self.root / "out/adapted.safetensors").returncode, 0)
        self.assertIn("Adaptation by kld", (self.root / "out/report.html").read_text())

    def test_words_of_old_speech_decide_where_they_are_counted(self):
        def exchange(folder):
            lines = (folder / "text").read_text().translate(str.maketrans("AB", "BA"))
            (folder / "text").write_text(lines)

        root = self.root
        arguments = ("--method", "transfer", "--graph", root / "graph", "--old-store", root / "store", "--max-forgetting",
                     1, "--set", "train.schedule.epochs=12", "--set", "train.schedule.learning-rate=0.3")
        counted = ("--set", f"old-decode.data='{root / 'feats'}'", "--set", f"old-decode.graph='{root / 'graph'}'")
        verdicts = []
        for more in ((), counted, (*counted, "--max-word-loss", 1)):
            result = self.adapt(*arguments, *more, "--json", data=self.spoil(exchange))
            self.assertEqual(result.returncode, 0, result.stderr)
            told = json.loads(result.stdout)
            verdicts.append(told["accepted"])
            if more:
                self.assertGreater(told["old_words"]["after"], told["old_words"]["before"] + 0.1)
        self.assertEqual(verdicts, [True, False, True])

    def test_adapts_to_what_it_recognises_itself(self):
        data = self.spoil(lambda folder: (folder / "text").unlink())
        result = self.adapt("--unsupervised", "--graph", self.root / "graph", "--min-confidence", 0.3, "--set",
                            "kld.rho=[0.5]", data=data)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("were recognised with a confidence", result.stdout)

    def test_a_bundle_brings_graph_and_lexicon(self):
        bundle = self.root / "small.antiphon"
        self.assertEqual(run("bundle", "--model", self.model, "--graph", self.root / "graph", "--out", bundle).returncode, 0)
        for more in ((), ("--unsupervised", "--min-confidence", 0.3)):
            result = self.adapt(*more, "--set", "kld.rho=[0.5]", model=bundle)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue((self.root / "out/model.safetensors").exists())

    def confidences(self):
        """Mean confidence of the words of each utterance in which any were recognised, and the ids of all."""
        told = [json.loads(line) for line in (self.root / "out/decode/results.jsonl").read_text().splitlines()]
        means = {one["utt_id"]: sum(word["confidence"] for word in one["words"]) / len(one["words"])
                 for one in told if one["words"]}
        return means, [one["utt_id"] for one in told]

    def used(self):
        return {line.split()[0] for line in (self.root / "out/speech/text").read_text().splitlines()}

    def test_what_is_not_recognised_with_confidence_is_left_out(self):
        def drown(folder):
            (folder / "text").unlink()
            random_ = random.Random(5)
            noise = [int(random_.gauss(0, 1000)) for _ in range(RATE)]
            (folder / "s0-u00.wav").write_bytes(system.wav_bytes(noise))
            scp = folder / "wav.scp"
            scp.write_text(scp.read_text().replace(str(self.root / "corpus"), str(folder)))

        data = self.spoil(drown)
        asked = ("--unsupervised", "--graph", self.root / "graph", "--set", "kld.rho=[0.5]", "--min-confidence")
        self.assertEqual(self.adapt(*asked, 0, data=data).returncode, 0)
        means, everybody = self.confidences()
        self.assertEqual(len(everybody), 24)
        self.assertNotIn("s0-u00", means)
        self.assertEqual(self.used(), set(means))

        least = (min(means.values()) + max(means.values())) / 2
        sure = {utt_id for utt_id, mean in means.items() if mean >= least}
        self.assertTrue(2 < len(sure) < len(means), means)
        result = self.adapt(*asked, least, data=data)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.used(), sure)
        self.assertIn(f"{len(sure)} of 24 utterances were recognised with a confidence", result.stdout)

        unsure = set(means) - sure

        def keep_unsure(folder):
            drown(folder)
            for name in ("utt2spk", "wav.scp"):
                lines = (folder / name).read_text().splitlines(keepends=True)
                (folder / name).write_text("".join(line for line in lines if line.split()[0] in unsure))

        shutil.rmtree(self.root / "out")
        self.assert_refused(self.adapt(*asked, 1, data=self.spoil(keep_unsure)),
                            f"none of the {len(unsure)} utterances", "recognised with enough confidence",
                            "--min-confidence")

    def test_a_profile_decodes_as_the_speakers_own_model(self):
        result = self.adapt("--graph", self.root / "graph", "--method", "lhuc", "--speaker", "s1", "--set",
                            "train.held-out.fraction=0.3")
        self.assertEqual(result.returncode, 0, result.stderr)
        profile = self.root / "out/profile.safetensors"
        self.assertTrue(profile.exists(), result.stdout)
        self.assertLess(profile.stat().st_size, 4096)
        texts = []
        for arguments in (("--profile", profile), ("--profile", profile, "--nnet.precision", "int8")):
            self.assertEqual(self.decode(*arguments).returncode, 0)
            texts.append((self.root / "decoded/text").read_text())
        self.decode(model=self.root / "out/model.safetensors")
        self.assertEqual(texts[0], (self.root / "decoded/text").read_text())
        (self.root / "profiles").mkdir(exist_ok=True)
        shutil.copy(profile, self.root / "profiles/s1.safetensors")
        known = self.decode("--profiles", self.root / "profiles")
        self.assertEqual(known.returncode, 0)
        self.assertNotIn("was made for", known.stderr)
        shutil.copy(profile, self.root / "profiles/s2.safetensors")
        self.assertIn("was made for speaker 's1', and by its name it is taken for 's2'",
                      self.decode("--profiles", self.root / "profiles").stderr)
        (self.root / "strangers").mkdir(exist_ok=True)
        shutil.copy(profile, self.root / "strangers/nobody.safetensors")
        refused = self.decode("--profiles", self.root / "strangers")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("nobody.safetensors", refused.stderr)
        self.assertIn("s0.safetensors", refused.stderr)
        refused = self.decode("--profile", profile, model=self.root / "other/model.safetensors")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("is for model", refused.stderr)

    def test_adversarial_training_needs_no_words(self):
        data = self.spoil(lambda folder: (folder / "text").unlink())
        asked = ("--method", "adversarial", "--old-store", self.root / "store")
        self.assert_refused(self.adapt(*asked, data=data), "has no transcripts", status=1)
        result = self.adapt(*asked, *SOUND_ALONE, data=data)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("a fresh classifier", result.stdout)
        self.assertIn("no transcripts", result.stdout)

    def test_speech_without_words_gets_its_speakers_transforms(self):
        root = self.root
        must("align", "--data", root / "gmm", "--lexicon", root / "lexicon.txt", "--out", root / "sat", "--last-stage",
             "sat", "--min-fmllr-frames", 10)
        tables = ("--features", root / "gmm/feats.scp", "--cmvn", root / "gmm/cmvn.scp", "--utt2spk",
                  root / "gmm/utt2spk", "--speaker-model", root / "sat/model.safetensors")
        must("store", *tables, "--speaker-transforms", root / "sat/fmllr.scp", "--alignment", root / "sat/pdf.scp",
             "--out", root / "sat-store")
        must("train", "--config", root / "net.toml", "--store", root / "sat-store", "--hmm",
             root / "sat/model.safetensors", "--speaker-model", root / "sat/model.safetensors", "--front-end",
             root / "gmm/front_end.toml", "--out", root / "sat-net", "--set", "data.minibatch=64")
        must("graph", "--model", root / "sat/model.safetensors", "--lexicon", root / "lexicon.txt", "--grammar",
             root / "grammar.txt", "--out", root / "sat-graph")
        data = self.spoil(lambda folder: (folder / "text").unlink())
        asked = ("adapt", root / "sat-net/model.safetensors", "--data", root / data, "--method", "adversarial",
                 "--old-store", root / "sat-store", "--out", root / "out", "--set", "train.data.minibatch=64", "--set",
                 "train.schedule.epochs=1", *SOUND_ALONE)
        self.assert_refused(run(*asked), "give a search graph", status=2)
        result = run(*asked, "--graph", root / "sat-graph")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((root / "out/decode/fmllr.scp").exists())

    def test_vectors_of_speakers_reach_the_network(self):
        root = self.root
        tables = ("--features", root / "feats/feats.scp", "--utt2spk", root / "feats/utt2spk")
        must("ivectors", *tables, "--dim", 2, "--gaussians", 4, root / "ivectors")
        vectors = ("--speaker-vectors", root / "ivectors/ivectors.scp")
        first = (root / "ivectors/ivectors.ark").read_bytes()
        must("ivectors", *tables, "--extractor", root / "ivectors/extractor.safetensors", root / "again")
        self.assertEqual((root / "again/ivectors.ark").read_bytes(), first)
        must("store", *tables, "--cmvn", root / "feats/cmvn.scp", "--alignment", root / "align/pdf.scp", *vectors, "--out",
             root / "vector-store")
        must("train", "--config", root / "net.toml", "--store", root / "vector-store", "--hmm",
             root / "align/model.safetensors", "--front-end", root / "feats/front_end.toml", "--out", root / "vector-net",
             "--set", "data.minibatch=64", "--set", "schedule.epochs=1")
        model = root / "vector-net/model.safetensors"
        self.assertEqual(self.decode(*vectors, model=model).returncode, 0)
        without = self.decode(model=model)
        self.assertEqual(without.returncode, 1)
        self.assertIn("features", without.stderr)
        refused = run("ivectors", *tables, "--extractor", model, root / "again")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("no i-vector extractor", refused.stderr)

    def test_mixes_new_speech_into_the_old(self):
        result = self.adapt("--method", "mix", "--graph", self.root / "graph", "--old-store", self.root / "store",
                            "--set", "mix.schedule=tail", "--set", "mix.tail=0.2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("New speech in the training run", (self.root / "out/report.html").read_text())

    def test_refuses_speech_that_it_cannot_use(self):
        graph = ("--graph", self.root / "graph")
        self.assert_refused(self.adapt(*graph, data=self.spoil(lambda f: (f / "text").unlink())), "no transcripts",
                            "--unsupervised")

        def keep_one(folder):
            for name in ("text", "utt2spk", "wav.scp"):
                (folder / name).write_text((folder / name).read_text().splitlines()[0] + "\n")

        self.assert_refused(self.adapt(*graph, data=self.spoil(keep_one)), "1 utterance(s)", "hold out")

        def silence(folder):
            random_ = random.Random(3)
            for wav in folder.glob("*.wav"):
                wav.write_bytes(system.wav_bytes(system.speech(["", "", ""], random_)))
            ids = [line.split()[0] for line in (folder / "text").read_text().splitlines()]
            (folder / "text").write_text("".join(f"{utt_id}\n" for utt_id in ids))
            scp = folder / "wav.scp"
            scp.write_text(scp.read_text().replace(str(self.root / "corpus"), str(folder)))

        self.assert_refused(self.adapt(*graph, data=self.spoil(silence)), "nothing but silence")

        def foreign(folder):
            text = (folder / "text").read_text()
            (folder / "text").write_text(text.replace(" A", " ELEPHANT").replace(" B", " ELEPHANT"))

        self.assert_refused(self.adapt(*graph, data=self.spoil(foreign)), "have no pronunciation", "ELEPHANT")
        self.assert_refused(self.adapt(*graph, "--speaker", "nobody"), "no utterance of speaker 'nobody'")
        self.assert_refused(self.adapt(*graph, data="gmm"), "ceps = 13")

    def test_utterances_with_words_that_nobody_can_pronounce_are_left_out(self):
        def some_foreign(folder):
            lines = (folder / "text").read_text().splitlines()
            lines[::4] = [line.rsplit(maxsplit=1)[0] + " ELEPHANT" for line in lines[::4]]
            (folder / "text").write_text("".join(line + "\n" for line in lines))

        lexicon = self.root / "unknown.txt"
        lexicon.write_text((self.root / "lexicon.txt").read_text() + "<UNK> SIL\n")
        result = self.adapt("--lexicon", lexicon, data=self.spoil(some_foreign))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("6 of 72 running words", result.stderr)
        self.assertIn("their utterances are left out", result.stderr)
        self.assertIn("18 of 24 utterances aligned", result.stdout)

    def test_refuses_recordings_in_which_nothing_is_heard(self):
        def hush(folder):
            for wav in folder.glob("*.wav"):
                wav.write_bytes(system.wav_bytes([0] * RATE))
            scp = folder / "wav.scp"
            scp.write_text(scp.read_text().replace(str(self.root / "corpus"), str(folder)))

        data = self.spoil(hush)
        for more in ((), ("--unsupervised",)):
            self.assert_refused(self.adapt("--graph", self.root / "graph", *more, data=data), "nothing to hear",
                                "24 of 24")

    def test_the_model_that_is_read_is_never_written(self):
        root = self.root
        arguments = ("--set", "train.schedule.epochs=1", "--set", "train.data.minibatch=64", "--min-gain", 0.9)
        for place, more in (("train", ("--set", "kld.rho=[0.5]")), ("rho-0.25", ())):
            shutil.rmtree(root / "out", ignore_errors=True)
            inside = root / "out" / place / "model.safetensors"
            inside.parent.mkdir(parents=True)
            shutil.copy(self.model, inside)
            result = run("adapt", inside, "--store", root / "store", "--out", root / "out", *arguments, *more)
            self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
            self.assertIn("overwritten", result.stderr)
            self.assertEqual(inside.read_bytes(), self.bytes)
        shutil.rmtree(root / "out")
        folder = root / "out"
        folder.mkdir()
        shutil.copy(self.model, folder)
        for named in ((folder,), (self.model, "--hmm", folder)):
            result = run("adapt", *named, "--store", root / "store", "--out", folder, *arguments)
            self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
            self.assertIn("this model would be overwritten", result.stderr)
            self.assertEqual((folder / "model.safetensors").read_bytes(), self.bytes)
        shutil.rmtree(folder)
        shutil.copytree(root / "corpus", root / "out/speech")
        words = (root / "out/speech/text").read_text()
        result = run("adapt", self.model, "--data", root / "out/speech", "--graph", root / "graph", "--speaker", "s1",
                     "--out", root / "out")
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertEqual((root / "out/speech/text").read_text(), words)

    def test_two_adaptations_do_not_share_a_folder(self):
        (self.root / "out").mkdir()
        with open(self.root / "out/.adaptation.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assert_refused(self.adapt("--graph", self.root / "graph"), "another adaptation is working", status=2)

    def test_any_name_will_do_for_a_folder(self):
        root = self.root
        named = root / "it's \"mine\""
        shutil.copytree(root / "graph", named / "graph")
        result = run("adapt", self.model, "--data", root / "corpus", "--graph", named / "graph", "--out", named / "out",
                     "--set", "train.schedule.epochs=1", "--set", "kld.rho=[0.5]", "--set", "train.data.minibatch=64")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((named / "out/model.safetensors").exists())

    def test_refuses_options_that_make_no_sense(self):
        graph = ("--graph", self.root / "graph")
        self.assert_refused(self.adapt(*graph, "--set", "kld.rho=[1.5]"), "rho", status=2)
        self.assert_refused(self.adapt(*graph, "--method", "magic"), "magic", status=2)
        self.assert_refused(self.adapt(*graph, "--set", "lhuc.rate=2"), "the method is 'kld'", status=2)
        for method in ("mix", "fmllr", "adversarial"):
            self.assert_refused(self.adapt(*graph, "--method", method), "--old-store", status=2)
        self.assert_refused(self.adapt(data=None), "--data", status=2)
        store = ("--store", self.root / "store")
        self.assert_refused(self.adapt(*store), "given twice", status=2)
        self.assert_refused(self.adapt(*store, "--speaker", "s1", data=None), "--speaker is about", status=2)
        self.assert_refused(self.adapt(*store, "--unsupervised", data=None), "--unsupervised is about", status=2)
        self.assert_refused(self.adapt(*graph, data="nowhere"), "no such folder")
        self.assert_refused(self.adapt(*graph, "--old-store", self.root / "nowhere"), "nowhere")
        self.assertFalse((self.root / "out/speech").exists())
        self.assert_refused(self.adapt(*graph, "--set", "old-decode.data='nowhere'"), "old-decode.data is 'nowhere'",
                            status=2)
        self.assert_refused(self.adapt(*graph, "--set", "old-decode.graph='x'"), "old-decode.data is ''", status=2)
        result = run("adapt", self.model, "--data", self.root / "corpus", *graph, "--out", self.model.parent)
        self.assert_refused(result, "would be overwritten", status=2)

    def test_spares_the_folder_of_an_experiment(self):
        root = self.root
        arguments = ("adapt", self.model, "--data", root / "corpus", "--graph", root / "graph", "--method", "lhuc")
        index = (root / "store/index.bin").read_bytes()
        for more in (("--old-store", root / "store"), ()):
            result = run(*arguments, *more, "--out", root)
            self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
            self.assertIn("would be overwritten", result.stderr)
        self.assertEqual((root / "store/index.bin").read_bytes(), index)


if __name__ == "__main__":
    system.PROGRAM = sys.argv.pop(2)
    sys.argv.pop(1)
    unittest.main(verbosity=1)
