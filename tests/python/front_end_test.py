"""FrontEnd, against kaldi-native-fbank."""

import threading
import unittest
import warnings

import numpy as np
import package

antiphon = package.optional("antiphon")
knf = package.optional("kaldi_native_fbank")


def sound(rate=16000, seconds=0.7):
    times = np.arange(int(rate * seconds)) / rate
    noise = np.random.default_rng(2).normal(size=len(times))
    return (0.3 * np.sin(2 * np.pi * 440 * times * (1 + times)) + 0.01 * noise).astype(np.float32)


@package.need("antiphon", "kaldi_native_fbank")
class FrontEnd(unittest.TestCase):
    def reference(self, options, computer, samples):
        options.frame_opts.dither = 0
        options.frame_opts.samp_freq = 16000
        features = computer(options)
        features.accept_waveform(16000, (samples * 32768).tolist())
        features.input_finished()
        return np.stack([features.get_frame(i) for i in range(features.num_frames_ready)])

    def test_filter_banks_are_kaldis(self):
        options = knf.FbankOptions()
        options.mel_opts.num_bins = 40
        expected = self.reference(options, knf.OnlineFbank, sound())
        found = antiphon.FrontEnd.standard("fbank", mel_bins=40)(sound(), 16000)
        self.assertEqual((found.shape, found.dtype), (expected.shape, np.float32))
        np.testing.assert_allclose(found, expected, atol=2e-3)

    def test_cepstra_are_kaldis(self):
        options = knf.MfccOptions()
        options.use_energy = True
        expected = self.reference(options, knf.OnlineMfcc, sound())
        np.testing.assert_allclose(antiphon.FrontEnd.standard("mfcc")(sound(), 16000), expected, atol=5e-3)

    def test_options_are_those_of_the_command(self):
        front_end = antiphon.FrontEnd(kind="fbank", mel_bins=30, dither=0.0, sample_rate=8000)
        self.assertEqual((front_end.dim, front_end.rate, front_end.frame_shift), (30, 8000, 0.01))
        again = antiphon.FrontEnd(front_end.options)
        samples = sound(8000)
        np.testing.assert_array_equal(front_end(samples, 8000), again(samples, 8000))
        # Other rates are converted.
        self.assertLess(np.abs(front_end(sound(16000), 16000)[:60] - front_end(samples, 8000)[:60]).mean(), 1.5)

    def test_whole_numbers_and_other_arrays_are_samples(self):
        front_end = antiphon.FrontEnd.standard("mfcc")
        whole = (sound() * 32767).astype(np.int16)
        expected = front_end(whole.astype(np.float32) / 32768, 16000)
        np.testing.assert_array_equal(front_end(whole, 16000), expected)
        np.testing.assert_array_equal(front_end(np.repeat(whole, 2)[::2], 16000), expected)
        np.testing.assert_array_equal(front_end((whole / 32768).tolist(), 16000), expected)
        self.assertEqual(front_end(np.zeros(10, np.float32), 16000).shape, (0, 13))

    def test_samples_on_another_scale_are_told(self):
        front_end = antiphon.FrontEnd.standard("mfcc")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            front_end(1.5 * sound(), 16000)
            front_end((sound() * 32767).astype(np.int16), 16000)
        with self.assertWarnsRegex(UserWarning, r"expected floats in -1 … 1, found up to .*int16") as caught:
            found = front_end(sound() * 32768, 16000)
        self.assertEqual(caught.filename, __file__)
        self.assertEqual(found.shape, front_end(sound(), 16000).shape)

    def test_the_commands_defaults_are_not_kaldis(self):
        of_command, of_kaldi = antiphon.FrontEnd(kind="mfcc", mel_bins=None), antiphon.FrontEnd.standard("mfcc")
        self.assertEqual((of_command.dim, of_kaldi.dim), (40, 13))
        self.assertIn("dither = 1.0", of_command.options)
        self.assertIn("dither = 0.0", of_kaldi.options)

    def test_threads_share_one(self):
        front_end = antiphon.FrontEnd.standard("fbank")
        expected = front_end(sound(), 16000)
        found = [None] * 8
        threads = [threading.Thread(target=lambda i=i: found.__setitem__(i, front_end(sound(), 16000)))
                   for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for frames in found:
            np.testing.assert_array_equal(frames, expected)

    def test_mistakes_are_named(self):
        front_end = antiphon.FrontEnd.standard("mfcc")
        bad = sound()
        bad[100] = np.nan
        for call, kind, text in ((lambda: front_end(bad, 16000), antiphon.InputError, r"finite.*\[100\]"),
                                 (lambda: front_end(np.zeros((2, 100)), 16000), ValueError, r"\(2, 100\)"),
                                 (lambda: front_end(np.zeros(100, np.int64), 16000), TypeError, "int64"),
                                 (lambda: front_end(sound(), 16000.5), TypeError, "whole number"),
                                 (lambda: front_end(sound(), 0), antiphon.InputError, "0 Hz"),
                                 (lambda: front_end(np.full(100, 1e30), 16000), antiphon.InputError, "samples"),
                                 (lambda: antiphon.FrontEnd("mfcc"), antiphon.UsageError, 'by name, kind="mfcc"'),
                                 (lambda: antiphon.FrontEnd(mel_bin=3), antiphon.UsageError, "mel-bins"),
                                 (lambda: antiphon.FrontEnd(mel_bins=-3), antiphon.UsageError, "mel-bins"),
                                 (lambda: antiphon.FrontEnd(mel_bins=object()), TypeError, "mel_bins"),
                                 (lambda: antiphon.FrontEnd.standard("mfc"), antiphon.UsageError, "mfcc")):
            with self.assertRaisesRegex(kind, text):
                call()


if __name__ == "__main__":
    package.main()
