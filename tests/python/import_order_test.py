"""The package works beside torch, onnxruntime and scikit-learn, whichever is imported first: each brings libraries of its
own, such as OpenMP, which must not get into another's way. Of these, those that are installed."""

import importlib.util
import itertools
import subprocess
import sys
import unittest

import package

# Import, then some arithmetic on several threads.
WORK = {
    "antiphon": "import antiphon, numpy\n"
                "assert antiphon.FrontEnd(kind='mfcc', dither=0.0)(numpy.ones(16000, numpy.float32), 16000).shape[1] == 40",
    "torch": "import torch\nassert (torch.ones(300, 300) @ torch.ones(300, 300))[0, 0] == 300",
    "onnxruntime": "import onnxruntime\nassert onnxruntime.get_available_providers()",
    "sklearn": "import numpy, sklearn.cluster\n"
               "sklearn.cluster.KMeans(2, n_init=1).fit(numpy.arange(600.0).reshape(200, 3))",
}


@package.need("antiphon")
class ImportOrder(unittest.TestCase):
    def test_any_order_will_do(self):
        there = [name for name in WORK if importlib.util.find_spec(name)]
        if there == ["antiphon"]:
            self.skipTest("neither torch nor onnxruntime nor sklearn is here")
        for order in itertools.permutations(there):
            with self.subTest(order):
                # All imports first; then each works, the last imported first.
                imports = "\n".join(WORK[name].splitlines()[0] for name in order)
                work = "\n".join(WORK[name] for name in reversed(order))
                result = subprocess.run([sys.executable, "-c", f"{imports}\n{work}\nprint('fine')"], text=True,
                                        capture_output=True, timeout=250)
                self.assertEqual((result.returncode, result.stdout), (0, "fine\n"), result.stderr)


if __name__ == "__main__":
    package.main()
