// Frames against reference values of Kaldi and kaldi-native-fbank, and properties that hold for every signal.
#include "feat/front_end.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "feat/audio.h"
#include "feat/cmvn.h"
#include "feat/pitch.h"
#include "reference.h"
#include "temporary_folder.h"

namespace antiphon::feat {
namespace {

constexpr const char* kFiles[] = {"digits8k", "short16k", "silence16k", "speech16k", "synth16k", "tone16k"};

#define SKIP_WITHOUT_REFERENCE() \
  if (!SharedDir("reference")) GTEST_SKIP() << "no ../shared/reference (ANTIPHON_SHARED names its parent)"

Waveform Wave(const std::string& file) { return ReadAudio(SharedDir("reference").value() / (file + ".wav")); }

FrontEndOptions OptionsOf(const std::string& kind, int rate) {
  const std::string base = kind.substr(0, kind.find_first_of("0123456789"));
  FrontEndOptions options = FrontEndOptions::Standard(base, rate);
  if (kind == "fbank40") options.mel_bins = 40;
  if (kind == "mfcc13_nosnip") options.snip_edges = false;
  if (kind == "plp13_deltas39") options.delta_order = 2;
  if (kind == "mfcc40hires") {
    options = FrontEndOptions();
    options.sample_rate_hz = rate;
    options.dither = 0.0;
  }
  return options;
}

// Largest difference as a share of what is allowed: 1e-3 on frames of values to 10, in proportion on frames of larger
// ones (liftered cepstra reach 100, and single precision leaves the reference itself 1.4e-3 from the exact values
// there).
double WorstShare(const Matrix& found, const Matrix& expected) {
  double worst = 0;
  for (int64_t t = 0; t < found.rows(); ++t) {
    double largest = 10, difference = 0;
    for (int64_t d = 0; d < found.cols(); ++d) {
      largest = std::max<double>(largest, std::fabs(expected(t, d)));
      difference = std::max<double>(difference, std::fabs(found(t, d) - expected(t, d)));
      if (!std::isfinite(found(t, d))) return 1e30;
    }
    worst = std::max(worst, difference / (1e-4 * largest));
  }
  return worst;
}

void ExpectNear(const Matrix& found, const Matrix& expected, const std::string& what, double allowance = 1.0) {
  ASSERT_EQ(found.rows(), expected.rows()) << what;
  ASSERT_EQ(found.cols(), expected.cols()) << what;
  EXPECT_LE(WorstShare(found, expected), allowance) << what;
}

// A pure tone leaves most filters with nothing but the rounding errors of the reference's own transform.
double Allowance(const std::string& file) { return file == "tone16k" ? 2.0 : 1.0; }

class Reference : public ::testing::TestWithParam<std::string> {};

TEST_P(Reference, FramesAgree) {
  SKIP_WITHOUT_REFERENCE();
  const std::string kind = GetParam();
  for (const std::string file : kFiles) {
    if (kind.starts_with("plp") && file == "silence16k") continue;
    const Waveform wave = Wave(file);
    const FrontEnd front_end(OptionsOf(kind, wave.sample_rate_hz));
    ExpectNear(front_end.Compute(wave.samples), ReadReference(file + "." + kind), file + " " + kind, Allowance(file));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Reference,
                         ::testing::Values("fbank40", "mfcc13", "mfcc13_nosnip", "mfcc40hires", "plp13",
                                           "plp13_deltas39"),
                         [](const auto& kind) { return kind.param; });

TEST(SlidingCmvn, AgreesWithReference) {
  SKIP_WITHOUT_REFERENCE();
  for (const std::string file : kFiles) {
    const Matrix frames = ReadReference(file + ".mfcc13");
    ExpectNear(SlidingCmvn(frames, {.window = 100, .center = true}), ReadReference(file + ".mfcc13_sliding100"), file);
  }
}

// Share of rows that agree within 1e-2 in every column.
double ShareAgreeing(const Matrix& found, const Matrix& expected, double pitch_scale) {
  EXPECT_EQ(found.rows(), expected.rows());
  EXPECT_EQ(found.cols(), expected.cols());
  int64_t agree = 0;
  for (int64_t t = 0; t < found.rows(); ++t) {
    bool good = true;
    for (int64_t d = 0; d < found.cols(); ++d) {
      const double scale = d == 1 ? pitch_scale : 1.0;
      good = good && std::fabs(found(t, d) - expected(t, d)) <= 1e-2 * scale;
    }
    agree += good;
  }
  return static_cast<double>(agree) / static_cast<double>(found.rows());
}

TEST(Pitch, AgreesWithReference) {
  SKIP_WITHOUT_REFERENCE();
  for (const std::string file : kFiles) {
    const Waveform wave = Wave(file);
    FrontEndOptions options;
    options.sample_rate_hz = wave.sample_rate_hz;
    const Matrix raw = PitchTracker(options).Compute(wave.samples);
    EXPECT_GE(ShareAgreeing(raw, ReadReference(file + ".pitch_raw"), 1.0), 0.99) << file;
    EXPECT_GE(ShareAgreeing(PostProcessPitch(raw, 3), ReadReference(file + ".pitch3"), 1.0), 0.99) << file;
    options.snip_edges = false;
    EXPECT_GE(
        ShareAgreeing(PitchTracker(options).Compute(wave.samples), ReadReference(file + ".pitch_raw_nosnip"), 1.0),
        0.99)
        << file;
  }
}

struct NativeCase {
  FrontEndOptions options;
  std::vector<float> samples;
  std::string Name() const {
    return options.kind + " " + std::to_string(options.sample_rate_hz) + (options.snip_edges ? " 1 " : " 0 ") +
           std::to_string(samples.size());
  }
};

std::vector<NativeCase> NativeCases() {
  std::vector<NativeCase> cases;
  for (const std::string kind : {"fbank", "mfcc"}) {
    for (const int rate : {8000, 16000, 44100}) {
      // A sweep over a little noise, silence, and less than a frame.
      std::vector<float> sweep = Chirp(rate / 2, 1000, rate);
      const std::vector<float> noise = WhiteNoise(rate / 2, 30, 1);
      for (size_t i = 0; i < sweep.size(); ++i) sweep[i] += noise[i];
      const std::vector<float> silence(static_cast<size_t>(rate) / 4, 0.0f);
      for (const bool snip : {true, false}) {
        FrontEndOptions options = FrontEndOptions::Standard(kind, rate);
        options.snip_edges = snip;
        cases.push_back({options, sweep});
        cases.push_back({options, silence});
        cases.push_back({options, std::vector<float>(sweep.begin(), sweep.begin() + rate / 50)});
      }
    }
  }
  return cases;
}

TEST(KaldiNativeFbank, Agrees) {
  const auto python = OraclePython("kaldi_native_fbank");
  if (!python) GTEST_SKIP() << "kaldi-native-fbank is not installed for the oracle Python";
  const std::vector<NativeCase> cases = NativeCases();
  const antiphon::testing::TemporaryFolder folder;
  std::ofstream list(folder / "list"), samples(folder / "samples", std::ios::binary);
  for (const NativeCase& c : cases) {
    list << c.Name() << "\n";
    samples.write(reinterpret_cast<const char*>(c.samples.data()),
                  static_cast<std::streamsize>(c.samples.size() * sizeof(float)));
  }
  list.close();
  samples.close();
  const auto text = RunPython(*python, R"(
import sys, numpy, kaldi_native_fbank as knf
samples = numpy.fromfile(sys.argv[2], numpy.float32)
for line in open(sys.argv[1]):
  kind, rate, snip, n = line.split()
  o = knf.FbankOptions() if kind == 'fbank' else knf.MfccOptions()
  o.frame_opts.samp_freq = int(rate); o.frame_opts.dither = 0; o.frame_opts.snip_edges = snip == '1'
  o.mel_opts.num_bins = 23; o.mel_opts.high_freq = 0
  f = (knf.OnlineFbank if kind == 'fbank' else knf.OnlineMfcc)(o)
  f.accept_waveform(int(rate), samples[:int(n)].tolist()); f.input_finished()
  samples = samples[int(n):]
  print(f.num_frames_ready)
  for i in range(f.num_frames_ready): print(*['%.7g' % v for v in f.get_frame(i)])
)",
                              (folder / "list").string() + " " + (folder / "samples").string());
  ASSERT_TRUE(text);
  std::istringstream values(*text);
  for (const NativeCase& c : cases) {
    const Matrix found = FrontEnd(c.options).Compute(c.samples);
    int64_t rows = -1;
    values >> rows;
    ASSERT_EQ(found.rows(), rows) << c.Name();
    Matrix expected(rows, found.cols());
    for (int64_t i = 0; i < expected.size(); ++i) ASSERT_TRUE(values >> expected.data()[i]);
    ExpectNear(found, expected, c.Name());
  }
}

TEST(FrontEnd, CountsFrames) {
  FrontEndOptions options = FrontEndOptions::Standard("fbank");
  EXPECT_EQ(FrontEnd(options).NumFrames(16000), 98);
  EXPECT_EQ(FrontEnd(options).NumFrames(399), 0);
  EXPECT_EQ(FrontEnd(options).NumFrames(400), 1);
  options.snip_edges = false;
  EXPECT_EQ(FrontEnd(options).NumFrames(16000), 100);
  EXPECT_EQ(FrontEnd(options).NumFrames(79), 0);
  EXPECT_EQ(FrontEnd(options).Compute(Tone(80, 400, 100)).rows(), 1);
  EXPECT_EQ(FrontEnd(options).Compute({}).rows(), 0);
}

TEST(FrontEnd, GainMovesLogMelByTwiceItsLogarithm) {
  std::vector<float> x = WhiteNoise(16000, 300, 1), y = x;
  for (float& v : y) v *= 7.5f;
  const Matrix a = FrontEnd(FrontEndOptions::Standard("fbank")).Compute(x);
  const Matrix b = FrontEnd(FrontEndOptions::Standard("fbank")).Compute(y);
  for (int64_t i = 0; i < a.size(); ++i) ASSERT_NEAR(b.data()[i] - a.data()[i], 2 * std::log(7.5), 1e-3);
  const Matrix c = FrontEnd(FrontEndOptions::Standard("mfcc")).Compute(x);
  const Matrix d = FrontEnd(FrontEndOptions::Standard("mfcc")).Compute(y);
  for (int64_t t = 0; t < c.rows(); ++t) {
    ASSERT_NEAR(d(t, 0) - c(t, 0), 2 * std::log(7.5), 1e-3);
    for (int64_t i = 1; i < c.cols(); ++i) ASSERT_NEAR(d(t, i), c(t, i), 2e-3);
  }
}

TEST(FrontEnd, IsFiniteForEverySignal) {
  std::vector<std::vector<float>> signals = {std::vector<float>(8000, 0.0f), std::vector<float>(8000, 32767.0f),
                                             Tone(8000, 440, 32767),         Tone(8000, 8000, 32767),
                                             WhiteNoise(8000, 1e6, 2),       WhiteNoise(8000, 1e-6, 3)};
  std::vector<float> impulse(8000, 0.0f), square(8000);
  impulse[4000] = 32767;
  for (size_t i = 0; i < square.size(); ++i) square[i] = i / 40 % 2 == 0 ? 32767.0f : -32768.0f;
  signals.push_back(impulse);
  signals.push_back(square);
  for (const std::string kind : {"fbank", "mfcc", "plp"}) {
    for (const bool energy : {false, true}) {
      FrontEndOptions options = FrontEndOptions::Standard(kind);
      options.use_energy = energy;
      options.pitch_dim = 3;
      options.delta_order = 2;
      const FrontEnd front_end(options);
      for (const auto& x : signals) {
        const Matrix frames = front_end.Compute(x);
        for (int64_t i = 0; i < frames.size(); ++i) ASSERT_TRUE(std::isfinite(frames.data()[i])) << kind << i;
      }
    }
  }
}

TEST(FrontEnd, WorksAtAnyRate) {
  for (const int rate : {6000, 8000, 11025, 16000, 22050, 32000, 44100, 48000, 96000}) {
    for (const std::string kind : {"fbank", "mfcc", "plp"}) {
      FrontEndOptions options = FrontEndOptions::Standard(kind, rate);
      options.mel_bins = 15;
      options.pitch_dim = 1;
      options.delta_order = 2;
      const FrontEnd front_end(options);
      const Matrix frames = front_end.Compute(Chirp(rate, 5000, rate));
      EXPECT_EQ(front_end.dim(), 3 * (1 + (kind == "fbank" ? 15 : 13)));
      EXPECT_GE(frames.rows(), 97);
      EXPECT_EQ(frames.rows(), front_end.NumFrames(rate));
    }
  }
}

TEST(FrontEnd, HasTheFortyTwoDimensionsOfPlpPitchAndDifferences) {
  FrontEndOptions options = FrontEndOptions::Standard("plp", 8000);
  options.pitch_dim = 1;
  options.delta_order = 2;
  EXPECT_EQ(FrontEnd(options).dim(), 42);
}

TEST(FrontEnd, DitherDependsOnSeedUtteranceAndPositionAlone) {
  FrontEndOptions options = FrontEndOptions::Standard("fbank");
  options.dither = 1.0;
  const std::vector<float> silence(16000, 0.0f);
  const FrontEnd front_end(options);
  const Matrix a = front_end.Compute(silence, UtteranceSeed("a")),
               again = front_end.Compute(silence, UtteranceSeed("a"));
  const Matrix b = front_end.Compute(silence, UtteranceSeed("b"));
  options.dither_seed = 1;
  const Matrix c = FrontEnd(options).Compute(silence, UtteranceSeed("a"));
  EXPECT_EQ(0, std::memcmp(a.data(), again.data(), static_cast<size_t>(a.size()) * sizeof(float)));
  EXPECT_NE(0, std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size()) * sizeof(float)));
  EXPECT_NE(0, std::memcmp(a.data(), c.data(), static_cast<size_t>(a.size()) * sizeof(float)));
  for (int64_t i = 0; i < a.size(); ++i) ASSERT_GT(a.data()[i], -5.0f);  // far above the floor
}

TEST(FrontEnd, IsTheSameWithEveryInstructionSet) {
  std::vector<float> x = Chirp(12000, 1000);
  const std::vector<float> noise = WhiteNoise(12000, 100, 4);
  for (size_t i = 0; i < x.size(); ++i) x[i] += noise[i];
  for (const std::string kind : {"fbank", "mfcc", "plp"}) {
    FrontEndOptions options = FrontEndOptions::Standard(kind);
    options.dither = 1.0;
    const FrontEnd front_end(options);
    const Matrix expected = front_end.Compute(x);
    for (int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
      hwy::SetSupportedTargetsForTest(targets & -targets);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      const Matrix found = front_end.Compute(x);
      hwy::SetSupportedTargetsForTest(0);
      hwy::GetChosenTarget().DeInit();
      // A tenth of what references are allowed: 1e-4.
      ExpectNear(found, expected, kind + " " + hwy::TargetName(targets & -targets), 0.1);
    }
  }
}

TEST(FrontEnd, RefusesWhatCannotBe) {
  EXPECT_THROW(FrontEnd({.pitch_dim = 2}), UsageError);
  EXPECT_THROW(FrontEnd({.mel_bins = 200}), UsageError);
  EXPECT_THROW(FrontEnd({.high_freq_hz = 9000.0}), UsageError);
  EXPECT_THROW(FrontEnd({.mel_bins = 30, .ceps = 40}), UsageError);
  EXPECT_THROW(FrontEnd({.kind = "plp", .ceps = 20}), UsageError);
  EXPECT_THROW(FrontEnd({.pitch_dim = 1, .max_pitch_hz = 40.0}), UsageError);
  std::vector<float> x(1000, 1.0f);
  x[500] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(FrontEnd(FrontEndOptions()).Compute(x), InputError);
}

}  // namespace
}  // namespace antiphon::feat
