"""What the program says to bad input: each fault gives status 1 or 2 and one message that names what is wrong.

Usage: bad_input_test.py SOURCE-TREE PROGRAM
"""

import math
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import unittest

import small_system
from small_system import NETWORK, RATE, must, run, speech, wav_bytes


class BadInput(small_system.SystemTest):
    @classmethod
    def store_command(cls, out, feats="feats"):
        root = cls.root
        return ("store", "--features", root / feats / "feats.scp", "--cmvn", root / "feats/cmvn.scp", "--utt2spk",
                root / "feats/utt2spk", "--alignment", root / "align/pdf.scp", "--out", root / out)

    @classmethod
    def train_command(cls, out, store="store"):
        root = cls.root
        return ("train", "--config", root / "net.toml", "--store", root / store, "--hmm",
                root / "align/model.safetensors", "--front-end", root / "feats/front_end.toml", "--out", root / out,
                "--set", "data.minibatch=64")

    def decode(self, model=None, feats="feats", graph="graph"):
        root = self.root
        return run("decode", "--model", model or root / "net/model.safetensors", "--graph", root / graph,
                   root / feats, root / "decoded")

    def fresh(self, name="broken"):
        """A copy of the corpus to spoil."""
        folder = self.root / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.root / "corpus", folder)
        scp = folder / "wav.scp"
        scp.write_text(scp.read_text().replace(str(self.root / "corpus"), str(folder)))
        return folder

    def features(self, folder, *more):
        return run("features", folder, "--out", self.root / "out", "--sample-rate", RATE, *more)

    def assert_refused(self, result, *expected, status=1):
        self.assertEqual(result.returncode, status, result.stderr)
        for text in expected:
            self.assertIn(text, result.stderr)
        self.assertLess(len(result.stderr), 4000)

    def test_an_alignment_that_is_not_what_was_written(self):
        """Cut at the end of a line, it reads well."""
        for name in ("pdf.scp", "pdf.ark"):
            file = self.root / "align" / name
            whole = file.read_bytes()
            file.write_bytes(whole[:whole.rindex(b"\n", 0, -1) + 1] if name == "pdf.scp" else
                             whole[:-4] + bytes([whole[-4] ^ 1]) + whole[-3:])
            self.assert_refused(run(*self.store_command("cut")), f"{name}' is not what", "pdf.checksums.json")
            file.write_bytes(whole)
        checksums = self.root / "align/pdf.checksums.json"
        kept = checksums.read_bytes()
        checksums.unlink()
        must(*self.store_command("cut"))
        checksums.write_bytes(kept)

    def test_a_cut_alignment_that_is_learnt_from(self):
        root = self.root
        for name, command in (
            ("ali", ("chain", "--alignment", root / "align", "--data", root / "gmm", root / "chain")),
            ("pdf", ("ivectors", "--features", root / "gmm/feats.scp", "--utt2spk", root / "gmm/utt2spk", "--alignment",
                     root / "align/pdf.scp", root / "ivectors")),
        ):
            script = root / f"align/{name}.scp"
            whole = script.read_text()
            lines = whole.splitlines(keepends=True)
            script.write_text("".join(lines[:len(lines) // 2]))
            result = run(*command)
            script.write_text(whole)
            self.assert_refused(result, f"{name}.scp' is not what", f"{name}.checksums.json")

    def test_a_graph_where_there_is_no_place(self):
        """A link that leads nowhere, and a pronunciation that would take for ever."""
        (self.root / "nowhere").symlink_to(self.root / "gone")
        graph = ("graph", "--model", self.root / "align/model.safetensors", "--grammar", self.root / "grammar.txt")
        link = f"'{self.root / 'nowhere'}' is a symbolic link to '{self.root / 'gone'}'"
        for more in ((), ("--on-the-fly",)):
            self.assert_refused(run(*graph, "--lexicon", self.root / "lexicon.txt", *more, self.root / "nowhere"), link)
        self.assert_refused(run(*self.store_command("nowhere")), link)
        (self.root / "long.txt").write_text("<SIL> SIL\nA a\nB" + " b" * 500000 + "\n")
        self.assert_refused(run(*graph, "--lexicon", self.root / "long.txt", self.root / "long"),
                            "long.txt:3: word 'B' has 500000 phones; at most 1000")

    def test_disks_without_room(self):
        """Whatever command writes; what it writes last, by which the rest is known to be whole, is not there."""
        root = self.root
        model = ("--model", root / "align/model.safetensors")
        graph = ("graph", *model, "--lexicon", root / "lexicon.txt", "--grammar", root / "grammar.txt")
        lattices = ("lattices", *model, "--graph", root / "graph", "--data", root / "gmm", "--text",
                    root / "corpus/text")
        commands = ((graph, "graph.json"), ((*graph, "--on-the-fly"), "graph.json"),
                    (self.store_command("")[:-2], "store.json"), (lattices, "lattices.json"),
                    (("features", root / "corpus", "--sample-rate", RATE), "feats.scp"))

        def refusals(out, why, **options):
            for command, last in commands:
                with self.subTest(command=command[0], why=why):
                    result = subprocess.run([small_system.PROGRAM, *map(str, command), "--out", str(out)],
                                            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100,
                                            **options)
                    self.assertEqual(result.returncode, 1, result.stderr)
                    self.assertRegex(result.stderr, f"^antiphon: error: antiphon {command[0]}:\n")
                    self.assertRegex(result.stderr, f"cannot write '{out}[^']*': {why}")
                    self.assertFalse((out / last).exists())
                shutil.rmtree(out, ignore_errors=True)

        refusals(root / "limited", "File too large",
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
        disk = root / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", disk], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("mounting a small disk needs root")
        try:
            refusals(disk / "out", "No space left on device; the disk is full: ")
        finally:
            subprocess.run(["umount", "-l", disk], check=True)

    def test_audio(self):
        whole = (self.root / "corpus/s0-u00.wav").read_bytes()
        samples = [0.1 * math.sin(t) for t in range(4000)]
        samples[1234] = math.nan
        for content, expected in (
            (None, "there is no audio file"),
            (b"", "is empty (0 bytes)"),
            (whole[:2000], "is cut short: its header promises"),
            (wav_bytes([]), "holds no samples"),
            (b"not audio at all\n", "cannot be read as audio"),
            (wav_bytes(samples, code=3), "not finite"),
        ):
            folder = self.fresh()
            (folder / "s0-u00.wav").unlink()
            if content is not None:
                (folder / "s0-u00.wav").write_bytes(content)
            result = self.features(folder)
            self.assert_refused(result, "s0-u00", "wav.scp:1", expected)
            self.assertEqual(result.stderr.count("wav.scp:1"), 1, result.stderr)
            self.assertFalse((self.root / "out/feats.ark").exists())

    def test_what_is_read_is_not_overwritten(self):
        root = self.root
        folder = self.fresh("own")
        text = (folder / "text").read_bytes()
        result = run("decode", "--model", root / "net/model.safetensors", "--graph", root / "graph", folder, f"{folder}/.")
        self.assert_refused(result, "would be overwritten", status=2)
        for parts in ((folder, root / "part"), (root / "part", folder), (root / "part", root / "part")):
            self.assertEqual(run("split", folder, *parts, "--fraction", 0.5).returncode, 2)
        self.assertEqual((folder / "text").read_bytes(), text)
        shutil.copytree(root / "net", root / "own-net")
        model = root / "own-net/model.safetensors"
        result = run("train", "--initial-model", model, "--store", root / "store", "--out", root / "own-net")
        self.assert_refused(result, "would be overwritten", status=2)
        result = run("compress", model, "--method", "prune", "--out", root / "own-net")
        self.assert_refused(result, "would be overwritten", status=2)
        self.assertEqual(model.read_bytes(), (root / "net/model.safetensors").read_bytes())

    def test_a_file_in_the_place_of_a_folder(self):
        root = self.root
        (root / "file").write_text("mine")
        for arguments in (("compress", root / "net/model.safetensors", "--method", "prune"),
                          ("ivectors", "--features", root / "feats/feats.scp", "--utt2spk", root / "feats/utt2spk"),
                          ("align", "--model", root / "align/model.safetensors", "--data", root / "gmm", "--lexicon",
                           root / "lexicon.txt")):
            self.assert_refused(run(*arguments, "--out", root / "file"), f"antiphon {arguments[0]}", "'" + str(root),
                                "choose another name")
        self.assertEqual((root / "file").read_text(), "mine")

    def test_one_broken_recording_is_reported_once(self):
        folder = self.fresh()
        (folder / "segments").write_text("".join(f"s0-seg{i} s0-u00 {i / 10} {i / 10 + 0.1}\n" for i in range(5)))
        (folder / "text").write_text("".join(f"s0-seg{i} A\n" for i in range(5)))
        (folder / "utt2spk").write_text("".join(f"s0-seg{i} s0\n" for i in range(5)))
        (folder / "s0-u00.wav").write_bytes(b"")
        result = self.features(folder)
        self.assert_refused(result, "5 of 5 utterances", "s0-seg0 and 4 more")
        self.assertEqual(result.stderr.count("is empty"), 1)

    def test_data_directories(self):
        for name, change, expected in (
            ("text", lambda lines: lines + lines[:1], "is there twice"),
            ("wav.scp", lambda lines: ["s0-u00 touch x |\n"] + lines[1:], "--allow-commands"),
            ("wav.scp", lambda lines: None, "there is no wav.scp"),
        ):
            folder = self.fresh()
            lines = change((folder / name).read_text().splitlines(keepends=True))
            (folder / name).unlink()
            if lines is not None:
                (folder / name).write_text("".join(lines))
            self.assert_refused(self.features(folder), expected)
        folder = self.fresh()
        text = (folder / "text").read_text().splitlines(keepends=True)
        (folder / "text").write_text("".join(reversed(text[1:])))
        result = run("prepare", "--check", folder)
        self.assert_refused(result)
        self.assertIn("not sorted", result.stdout + result.stderr)
        self.assertIn("without a transcript", result.stdout + result.stderr)

    def test_words_without_pronunciation(self):
        root = self.root
        shutil.copytree(root / "gmm", root / "oov", dirs_exist_ok=True)
        text = (root / "corpus/text").read_text()
        (root / "oov/text").write_text(text.replace(" A", " ELEPHANT", 1))
        command = ("align", "--data", root / "oov", "--features", root / "gmm/feats.scp", "--cmvn",
                   root / "gmm/cmvn.scp", "--lexicon", root / "lexicon.txt", "--out", root / "oov_align",
                   "--last-stage", "mono")
        result = run(*command)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("'ELEPHANT'", result.stderr)
        (root / "oov/text").write_text(text.replace(" A", " ELEPHANT").replace(" B", " ELEPHANT"))
        self.assert_refused(run(*command), "72 of 72 running words", "have no pronunciation", "'ELEPHANT' (72 times)")

    def test_archives_whose_headers_lie(self):
        scp = (self.root / "feats/feats.scp").read_text()
        ark = (self.root / "feats/feats.ark").read_bytes()
        offset = int(scp.splitlines()[0].rsplit(":", 1)[1])
        rows = offset + ark[offset:offset + 12].index(b" ") + 9  # behind "\0BCM ", smallest value and range
        for place, change, expected in (
            (rows, struct.pack("<i", 2_000_000_000), "would need"),
            (rows, struct.pack("<i", -5), "impossible"),
            (rows + 4, struct.pack("<i", 41), "41"),
            (offset + 2, b"XX", "no type that Antiphon knows"),
        ):
            folder = self.root / "lies"
            folder.mkdir(exist_ok=True)
            (folder / "feats.scp").write_text(scp.replace(str(self.root / "feats"), str(folder)))
            (folder / "feats.ark").write_bytes(ark[:place] + change + ark[place + len(change):])
            self.assert_refused(run(*self.store_command("store2", "lies")), "s0-u00", expected)
        (folder / "feats.ark").write_bytes(ark[:len(ark) // 2])
        self.assert_refused(run(*self.store_command("store2", "lies")), "cut short")
        self.assertFalse((self.root / "store2").exists())

    def test_features_that_do_not_fit_the_model(self):
        root = self.root
        self.assert_refused(self.decode(feats="gmm"), "ceps = 13", "takes those with 40")
        must("features", root / "corpus", "--out", root / "wide", "--sample-rate", 16000)
        self.assert_refused(self.decode(feats="wide"), "sample-rate = 16000", "takes those with 8000")
        (root / "gmm/front_end.toml").rename(root / "gmm/moved.toml")
        self.assert_refused(self.decode(feats="gmm"), "40 values per frame, the features have 13")
        (root / "gmm/moved.toml").rename(root / "gmm/front_end.toml")
        command = [root / "gmm/front_end.toml" if argument == root / "feats/front_end.toml" else argument
                   for argument in self.train_command("net2")]
        self.assert_refused(run(*command), "13 dimensions")

    def test_stores_of_features_of_another_kind(self):
        root = self.root
        must("features", root / "corpus", "--out", root / "low", "--sample-rate", 8000, "--low-freq-hz", 100)
        command = self.store_command("low-store", "low")
        must(*command)
        here = "low-freq-hz = 100", "takes those with 20"
        self.assert_refused(run("adapt", root / "net/model.safetensors", "--store", root / "low-store", "--out",
                                root / "adapted"), *here, "'" + str(root / "low-store") + "'", "the model")
        self.assertFalse((root / "adapted/model.safetensors").exists())
        self.assert_refused(run("adapt", root / "net/model.safetensors", "--store", root / "store", "--old-store",
                                root / "low-store", "--out", root / "adapted"), *here)
        self.assert_refused(run("train", "--evaluate", root / "net/model.safetensors", "--store", root / "low-store"),
                            *here)
        self.assert_refused(run(*self.train_command("net2"), "--held-out-store", root / "low-store"), *here)
        self.assert_refused(run(*self.train_command("net2"), "--set", "side.task=domain", "--set",
                                f"side.store={root / 'low-store'}"), *here, "'" + str(root / "store") + "'")
        self.assert_refused(run("compress", root / "net/model.safetensors", "--method", "svd", "--store",
                                root / "low-store", "--out", root / "small"), *here)
        other = [root / "low/front_end.toml" if argument == root / "feats/front_end.toml" else argument
                 for argument in self.train_command("net2")]
        self.assert_refused(run(*other), "low-freq-hz = 20", "takes those with 100")

    def test_features_without_the_normalisation_of_training(self):
        root = self.root
        command = self.store_command("raw-store")
        at = command.index("--cmvn")
        must(*command[:at], *command[at + 2:])
        expected = "normalisation by speaker 'none'", "takes 'mean'", "with --cmvn"
        self.assert_refused(run("adapt", root / "net/model.safetensors", "--store", root / "raw-store", "--out",
                                root / "adapted"), *expected)
        self.assert_refused(run("train", "--evaluate", root / "net/model.safetensors", "--store", root / "raw-store"),
                            *expected)
        self.assert_refused(run(*self.train_command("net2"), "--held-out-store", root / "raw-store"), *expected)
        table = ("decode", "--model", root / "net/model.safetensors", "--graph", root / "graph", "--features",
                 root / "feats/feats.scp", "--out", root / "decoded", root / "corpus")
        self.assertIn("normalisation by speaker 'mean', here it is 'none'", must(*table).stderr)
        self.assertNotIn("normalisation", must(*table, "--cmvn", root / "feats/cmvn.scp").stderr)
        # A network of plain features takes none of the statistics that lie beside others.
        must(*self.train_command("raw-net", "raw-store"))
        self.assertNotIn("normalisation", must("decode", "--model", root / "raw-net/model.safetensors", "--graph",
                                               root / "graph", root / "feats", root / "decoded").stderr)

    def test_a_store_tells_its_front_end_to_the_network(self):
        root = self.root
        command = self.train_command("untold")
        at = command.index("--front-end")
        must(*command[:at], *command[at + 2:])
        self.assert_refused(self.decode(model=root / "untold/model.safetensors", feats="gmm"), "ceps = 13")

    def test_configurations(self):
        path = self.root / "wrong.toml"
        command = list(self.train_command("net2"))
        command[2] = path
        for text, expected in (
            ("[schedule]\nlearnin-rate = 0.1\n" + NETWORK,
             "wrong.toml:2: unknown key in [schedule] 'learnin-rate' (did you mean 'learning-rate'?)"),
            ('[schedule]\nlearning-rate = "fast"\n' + NETWORK, "wrong.toml:2: 'learning-rate' must be a number"),
            ("[schedule\n", "wrong.toml:1"),
            ('[[network.layer]]\ntype = "afine"\n', "did you mean 'affine'?"),
        ):
            path.write_text(text)
            self.assert_refused(run(*command), expected, status=2)
        hmm = ("--hmm", self.root / "align/model.safetensors")
        must(*self.store_command("counted"), *hmm)
        self.assert_refused(run(*self.store_command("counted"), *hmm, "--num-pdfs", 9), "not both", status=2)
        self.assert_refused(run(*self.store_command("few"), "--num-pdfs", 1), "expected 0 … 0")

    def test_models_cut_short_or_changed(self):
        whole = (self.root / "net/model.safetensors").read_bytes()
        model = self.root / "spoilt.safetensors"
        for size in (0, 4, 100, len(whole) // 2, len(whole) - 1):
            model.write_bytes(whole[:size])
            self.assert_refused(self.decode(model), "spoilt.safetensors")
        for place in (3, 200, len(whole) // 2, len(whole) - 3):
            model.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1:])
            self.assert_refused(self.decode(model), "spoilt.safetensors")

    def test_stores_and_graphs_that_were_changed(self):
        shutil.copytree(self.root / "store", self.root / "store3", dirs_exist_ok=True)
        shard = self.root / "store3/shard-00000.frames"
        whole = shard.read_bytes()
        shard.write_bytes(whole[:1000])
        self.assert_refused(run(*self.train_command("net3", "store3")), "shard-00000.frames", "cut short")
        shard.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
        self.assert_refused(run(*self.train_command("net3", "store3")), "checksum is wrong")
        shutil.copytree(self.root / "graph", self.root / "graph3", dirs_exist_ok=True)
        graph = self.root / "graph3/HCLG.fst"
        graph.write_bytes(graph.read_bytes()[:300])
        self.assert_refused(self.decode(graph="graph3"), "cut short or changed")

    def test_a_long_command_stops_when_it_is_asked_to(self):
        root = self.root
        command = [small_system.PROGRAM, "align", "--data", root / "gmm", "--lexicon", root / "lexicon.txt", "--out",
                   root / "stopped", "--last-stage", "mono", "--set", "mono.iterations=1000"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as process:
            for line in process.stderr:
                if "mono 1/" in line:
                    process.send_signal(signal.SIGTERM)
                    break
            self.assertIn("stopped on request", process.stderr.read())
            self.assertEqual(process.wait(60), 3)


if __name__ == "__main__":
    small_system.PROGRAM = sys.argv[2]
    unittest.main(argv=sys.argv[:1])
