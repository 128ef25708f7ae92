"""read_table and write_table, against kaldiio."""

import pathlib
import tempfile
import unittest

import numpy as np
import package

antiphon = package.optional("antiphon")
kaldiio = package.optional("kaldiio")


@package.need("antiphon", "kaldiio")
class Tables(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.temporary.name)
        self.random = np.random.default_rng(3)

    def tearDown(self):
        self.temporary.cleanup()

    def matrices(self, dtype=np.float32):
        return {f"utt{i}": self.random.normal(size=(i + 1, 5)).astype(dtype) for i in range(4)}

    def check(self, expected, table, tolerance=0.0):
        found = list(antiphon.read_table(table))
        self.assertEqual([key for key, _ in found], list(expected))
        for key, value in found:
            self.assertEqual(value.shape, expected[key].shape)
            np.testing.assert_allclose(value, expected[key], rtol=0, atol=tolerance)

    def test_matrices_of_kaldiio_are_read(self):
        for dtype, tolerance in ((np.float32, 0), (np.float64, 1e-6)):
            matrices = self.matrices(dtype)
            kaldiio.save_ark(str(self.root / "a.ark"), matrices, scp=str(self.root / "a.scp"))
            self.check(matrices, self.root / "a.scp", tolerance)
            self.check(matrices, f"ark:{self.root}/a.ark", tolerance)

    def test_compressed_and_text_matrices_are_read(self):
        matrices = self.matrices()
        kaldiio.save_ark(str(self.root / "c.ark"), matrices, compression_method=2)
        compressed = dict(kaldiio.load_ark(str(self.root / "c.ark")))
        self.check(compressed, self.root / "c.ark", 1e-6)
        kaldiio.save_ark(str(self.root / "t.ark"), matrices, text=True)
        self.check(matrices, self.root / "t.ark", 1e-5)

    def test_vectors_and_integers_are_told_apart(self):
        vectors = {f"u{i}": self.random.normal(size=i + 1).astype(np.float32) for i in range(3)}
        integers = {f"u{i}": self.random.integers(-9, 1000, size=i + 1).astype(np.int32) for i in range(3)}
        for name, values, dtype in (("v", vectors, np.float32), ("i", integers, np.int32)):
            for text in (False, True):
                kaldiio.save_ark(str(self.root / f"{name}.ark"), values, text=text)
                if text and name == "i":  # as Kaldi has them, without the brackets of kaldiio
                    lines = (f"{key} {' '.join(map(str, value))}\n" for key, value in values.items())
                    (self.root / "i.ark").write_text("".join(lines))
                self.check(values, self.root / f"{name}.ark", 1e-5 if text else 0)
                self.assertEqual(next(antiphon.read_table(self.root / f"{name}.ark"))[1].dtype, dtype)

    def test_empty_lists_are_what_the_others_are(self):
        for text in (False, True):
            for values, dtype in (([[], [1, 2], []], np.int32), ([[], [1.5], []], np.float32),
                                  ([[], np.zeros((2, 3), np.float32)], np.float32),
                                  ([np.zeros(0, np.int32)] * 2, np.int32), ([[], []], np.float32)):
                table = {f"u{i}": value for i, value in enumerate(values)}
                self.assertEqual(antiphon.write_table(self.root / "e.ark", table, text=text), len(values))
                for place in ("e.ark", "e.scp"):
                    found = dict(antiphon.read_table(self.root / place))
                    self.assertEqual({key: (value.size, value.ndim, value.dtype) for key, value in found.items()},
                                     {key: (np.size(value), np.ndim(values[1]), dtype) for key, value in table.items()})

    def test_what_is_written_kaldiio_reads(self):
        matrices = self.matrices()
        for name, options, tolerance in (("plain", {}, 0), ("text", {"text": True}, 1e-5),
                                         ("packed", {"coding": "global16"}, 1e-3)):
            self.assertEqual(antiphon.write_table(self.root / f"{name}.ark", matrices.items(), **options), 4)
            read = kaldiio.load_scp(str(self.root / f"{name}.scp"))
            for key, value in matrices.items():
                np.testing.assert_allclose(read[key], value, rtol=0, atol=tolerance)
        integers = {"a": np.arange(5), "b": np.array([7], dtype=np.int16)}
        antiphon.write_table(self.root / "ali.ark", integers.items())
        for key, value in kaldiio.load_ark(str(self.root / "ali.ark")):
            np.testing.assert_array_equal(value, integers[key])
        antiphon.write_table(self.root / "v.ark.gz", [("a", [0.5, 1.5])])
        np.testing.assert_array_equal(dict(antiphon.read_table(self.root / "v.ark.gz"))["a"], [0.5, 1.5])

    def test_arrays_outlive_their_table(self):
        matrices = self.matrices()
        antiphon.write_table(self.root / "a.ark", matrices.items())
        kept = [value for _, value in antiphon.read_table(self.root / "a.ark")]
        for value, expected in zip(kept, matrices.values()):
            np.testing.assert_array_equal(value, expected)

    def test_mistakes_are_named(self):
        with self.assertRaisesRegex(FileNotFoundError, "nowhere.scp"):
            antiphon.read_table("nowhere.scp")
        with self.assertRaisesRegex(TypeError, "expected a path"):
            antiphon.read_table(3)
        (self.root / "broken.ark").write_bytes(b"utt1 \0BFM \4\xff\xff\xff\x7f\4\xff\xff\xff\x7f")
        with self.assertRaisesRegex(antiphon.InputError, "broken.ark"):
            list(antiphon.read_table(self.root / "broken.ark"))
        for entries, kind, text in (([("a b", np.zeros((1, 2)))], antiphon.InputError, "a b"),
                                    ([("a", np.zeros((1, 2))), ("b", np.zeros(2))], ValueError, "another kind"),
                                    ([("a", np.array([[np.nan]]))], antiphon.InputError, "finite"),
                                    ([("a", np.array(["x"]))], TypeError, "expected an array of floats"),
                                    ([("a", np.array([2**40]))], ValueError, "32 bits"),
                                    ([(1, np.zeros(2))], TypeError, "key")):
            with self.assertRaisesRegex(kind, text):
                antiphon.write_table(self.root / "x.ark", entries)
            self.assertFalse((self.root / "x.ark").exists(), text)
        with self.assertRaisesRegex(antiphon.UsageError, "column8"):
            antiphon.write_table(self.root / "x.ark", [], coding="column8")


if __name__ == "__main__":
    package.main()
