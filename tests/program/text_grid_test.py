"""TextGrids of antiphon align in the packages that people open them with: praatio, tgt, textgrid.

Usage: text_grid_test.py SOURCE-TREE PROGRAM. Exit status 77, skipped, where none of the packages is installed.
"""

import sys
import unittest

import small_system as system

PACKAGES = ("praatio", "tgt", "textgrid")


def by_praatio(path):
    from praatio import textgrid  # pylint: disable=import-outside-toplevel
    grid = textgrid.openTextgrid(path, includeEmptyIntervals=False)
    return {name: [tuple(entry) for entry in grid.getTier(name).entries] for name in grid.tierNames}


def by_tgt(path):
    import tgt  # pylint: disable=import-outside-toplevel
    return {tier.name: [(i.start_time, i.end_time, i.text) for i in tier] for tier in tgt.io.read_textgrid(path).tiers}


def by_textgrid(path):
    import textgrid  # pylint: disable=import-outside-toplevel
    return {tier.name: [(i.minTime, i.maxTime, i.mark) for i in tier if i.mark]
            for tier in textgrid.TextGrid.fromFile(path).tiers}


class TextGrids(system.SystemTest):
    def test_every_package_reads_the_words_and_times_of_the_ctm(self):
        root = self.root
        system.must("align", "--data", root / "gmm", "--out", root / "grids", "--lexicon", root / "lexicon.txt", "--model",
                    root / "align/model.safetensors", "--files", "TextGrid")
        expected = {}
        for name in ("words", "phones"):
            for line in (root / f"grids/{name}.ctm").read_text().splitlines():
                utt_id, _, start, duration, label = line.split()
                expected.setdefault((utt_id, name), []).append((float(start), float(start) + float(duration), label))
        readers = {"praatio": by_praatio, "tgt": by_tgt, "textgrid": by_textgrid}
        for package in filter(system.has, PACKAGES):
            for utt_id in sorted({utt_id for utt_id, _ in expected}):
                tiers = readers[package](str(root / f"grids/TextGrid/{utt_id}.TextGrid"))
                self.assertEqual(sorted(tiers), ["phones", "words"], package)
                for name, found in tiers.items():
                    right = expected[utt_id, name]
                    self.assertEqual([label for _, _, label in found], [label for _, _, label in right], package)
                    for (start, end, _), (right_start, right_end, _) in zip(found, right):
                        self.assertAlmostEqual(start, right_start, delta=0.0015)
                        self.assertAlmostEqual(end, right_end, delta=0.0015)


if __name__ == "__main__":
    if not any(map(system.has, PACKAGES)):
        system.go_on_where_packages_are(sys.argv[1])
    system.PROGRAM = sys.argv.pop(2)
    sys.argv.pop(1)
    if not any(map(system.has, PACKAGES)):
        print("skipped: none of praatio, tgt, textgrid is installed (python/requirements.txt)")
        sys.exit(77)
    unittest.main(verbosity=1)
