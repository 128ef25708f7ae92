"""Compressor and Adapter do what the commands do."""

import json
import unittest

import package
from small_system import must
from system import SystemTest

antiphon = package.optional("antiphon")
RETRAINING = {"train": {"schedule": {"epochs": 1}, "data": {"minibatch": 64}, "held_out": {"fraction": 0.2}},
              "threads": 1}


@package.need("antiphon")
class Improvement(SystemTest):
    def test_a_compression_is_the_commands(self):
        model, out = self.root / "net/model.safetensors", self.root / "svd"
        compressor = antiphon.Compressor(model, "svd", store=self.root / "store", svd={"energy": 0.6}, **RETRAINING)
        found = compressor.run(out)
        must("compress", model, "--method", "svd", "--set", "svd.energy=0.6", "--store", self.root / "store", "--out",
             self.root / "svd_command", "--train.schedule.epochs", 1, "--train.held-out.fraction", 0.2, "--set",
             "train.data.minibatch=64", "--threads", 1)
        self.assertEqual((out / "model.safetensors").read_bytes(),
                         (self.root / "svd_command/model.safetensors").read_bytes())
        self.assertLess(found.compressed.parameters, found.before.parameters)
        self.assertEqual(antiphon.Model(found.model).num_parameters, found.retrained.parameters)
        with self.assertRaisesRegex(antiphon.UsageError, "this model"):
            compressor.run(model.parent)
        for method in ("", "sdv"):
            with self.assertRaises(antiphon.UsageError):
                antiphon.Compressor(model, method).run(self.root / "none")

    def test_an_adaptation_is_the_commands(self):
        model, store = self.root / "net/model.safetensors", self.root / "store"
        adapter = antiphon.Adapter(model, store=store, old_store=store, kld={"rho": [0.5]}, **RETRAINING)
        found = adapter.run(self.root / "adapted")
        must("adapt", model, "--store", store, "--old-store", store, "--out", self.root / "adapted_command", "--set",
             "kld.rho=[0.5]", "--train.schedule.epochs", 1, "--set", "train.data.minibatch=64", "--set",
             "train.held-out.fraction=0.2", "--threads", 1)
        for name in ("model.safetensors", "adapted.safetensors"):
            self.assertEqual((self.root / "adapted" / name).read_bytes(),
                             (self.root / "adapted_command" / name).read_bytes(), name)
        told = json.loads((self.root / "adapted/adaptation.json").read_text())
        self.assertEqual(found.accepted, told["accepted"])
        self.assertTrue(found.verdict)
        self.assertGreater(found.new_after.frames, 0)
        with self.assertRaises(FileNotFoundError):
            antiphon.Adapter(model, store=self.root / "nowhere")
        with self.assertRaisesRegex(antiphon.UsageError, "min-gain"):
            antiphon.Adapter(model, store=store, min_gian=0.1).run(self.root / "none")


if __name__ == "__main__":
    package.main()
