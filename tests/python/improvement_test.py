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

    def test_mistakes_are_named_before_anything_runs(self):
        model, store, damaged = self.root / "net/model.safetensors", self.root / "store", self.root / "damaged"
        damaged.write_bytes(model.read_bytes()[:-8])

        def compressor(method="svd", model=model, **more):
            return antiphon.Compressor(model, method, **more)

        def adapter(model=model, **more):
            return antiphon.Adapter(model, store=store, **more)

        for call, kind, text in (
                (lambda: compressor(""), antiphon.UsageError, "needs a method"),
                (lambda: compressor("sdv"), antiphon.UsageError, "method of compression 'sdv' .did you mean 'svd'"),
                (lambda: compressor(nonsense=3), antiphon.UsageError, "unknown key 'nonsense'"),
                (lambda: compressor(svd={"enregy": 0.6}), antiphon.UsageError, "'enregy' .*'energy'"),
                (lambda: compressor(quantize={}), antiphon.UsageError, "options of 'quantize'"),
                (lambda: compressor(train={"scedule": {}}), antiphon.UsageError, "schedule"),
                (lambda: compressor(optimizer={"type": "sgt"}), antiphon.UsageError, "optimizer 'sgt' .*'sgd'"),
                (lambda: compressor(model=damaged), antiphon.InputError, "damaged"),
                (lambda: compressor(model=self.root / "nowhere"), FileNotFoundError, "nowhere"),
                (lambda: adapter(method="kdl"), antiphon.UsageError, "method of adaptation 'kdl' .did you mean 'kld'"),
                (lambda: adapter(min_gian=0.1), antiphon.UsageError, "min-gain"),
                (lambda: adapter(kld={"roh": [0.5]}), antiphon.UsageError, "'roh'"),
                (lambda: adapter(optimizer={"momentun": 0.5}), antiphon.UsageError, "momentum"),
                (lambda: adapter(model=damaged), antiphon.InputError, "damaged"),
                (lambda: antiphon.Adapter(model, store=self.root / "nowhere"), FileNotFoundError, "nowhere")):
            with self.assertRaisesRegex(kind, text):
                call()
        found = compressor(svd={"weighted": False, "energy": 0.6}, frames=None).run(self.root / "plain")
        self.assertEqual(found.model, str(self.root / "plain/model.safetensors"))

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


if __name__ == "__main__":
    package.main()
