"""The recognisers that lie in models/: whole, small, with a card, and as good as they say on speech that they do not know.

Usage: ready_model_test.py SOURCE-TREE PROGRAM. What takes speech is skipped where ../shared/data/minilibri is not there
(ANTIPHON_SHARED names the folder for ../shared) or the Python has no jiwer.
"""

import json
import os
import pathlib
import sys
import tempfile
import unittest

import small_system as system

SOURCE = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
MODELS = sorted((SOURCE / "models").glob("*.antiphon"))
SPEECH = pathlib.Path(os.environ.get("ANTIPHON_SHARED") or SOURCE.parent / "shared") / "data/minilibri"
LARGEST = 20 * 1000 * 1000  # bytes; larger ones belong to releases alone


def card_of(model):
    return json.loads(system.must("info", model, "--json").stdout)


def table(path):
    return dict(line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines())


class ReadyModels(unittest.TestCase):
    def test_there_are_some_and_they_say_what_they_are(self):
        self.assertTrue(MODELS, "models/ has no recogniser")
        for model in MODELS:
            with self.subTest(model.name):
                self.assertLess(model.stat().st_size, LARGEST)
                card = card_of(model)
                for key in ("speech", "licence", "test", "speed"):
                    self.assertTrue(card.get(key), f"the card has no '{key}': {card}")

    def test_pronounce_words_that_they_lack(self):
        for model in MODELS:
            with self.subTest(model.name):
                lines = system.must("g2p", "apply", model, "kaldi", "zorblax").stdout.splitlines()
                self.assertEqual([line.split()[0] for line in lines], ["kaldi", "zorblax"])
                self.assertTrue(all(len(line.split()) > 3 for line in lines), lines)

    @unittest.skipUnless(SPEECH.exists(), "no shared speech")
    @unittest.skipUnless(system.has("jiwer"), "no jiwer")
    def test_understands_speakers_that_it_does_not_know(self):
        import jiwer  # pylint: disable=import-outside-toplevel,import-error
        recordings, said = table(SPEECH / "data/test/wav.scp"), table(SPEECH / "data/test/text")
        utterances = sorted(recordings)[::10]
        for model in MODELS:
            with self.subTest(model.name), tempfile.TemporaryDirectory() as folder:
                system.must("transcribe", "--model", model, "--write", "text", "--out", folder, "--quiet",
                            *(SPEECH / recordings[utterance] for utterance in utterances))
                heard = [(pathlib.Path(folder) / pathlib.Path(recordings[utterance]).with_suffix(".txt").name)
                         .read_text(encoding="utf-8").upper() for utterance in utterances]
                errors = jiwer.wer([said[utterance] for utterance in utterances], heard)
                self.assertLess(errors, 1.4 * card_of(model)["test"]["error_rate"])


if __name__ == "__main__":
    system.go_on_where_packages_are(SOURCE)
    system.PROGRAM = sys.argv[2]
    unittest.main(argv=sys.argv[:1])
