#include "data/feature_extraction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "data/archive.h"
#include "data/feature_parts.h"
#include "data/feature_source.h"
#include "feat/audio.h"
#include "feat/cmvn.h"
#include "peak_memory.h"
#include "sanitized.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;
using antiphon::testing::TemporaryFolder;

// Four utterances of two speakers, 0.3 … 0.6 s of noise.
void MakeData(const fs::path& folder, int rate = 8000) {
  std::string wav, text, utt2spk;
  for (int i = 0; i < 4; ++i) {
    Rng rng(static_cast<uint64_t>(i));
    feat::Waveform wave{std::vector<float>(static_cast<size_t>(rate) * static_cast<size_t>(3 + i) / 10), rate};
    for (float& x : wave.samples) x = static_cast<float>(500 * rng.Normal());
    const std::string id = std::string(i < 2 ? "ann-" : "bob-") + std::to_string(i);
    feat::WriteWav(folder / (id + ".wav"), wave);
    wav += id + " " + id + ".wav\n";
    text += id + " A B\n";
    utt2spk += id + (i < 2 ? " ann\n" : " bob\n");
  }
  WriteFileAtomically(folder / "wav.scp", wav);
  WriteFileAtomically(folder / "text", text);
  WriteFileAtomically(folder / "utt2spk", utt2spk);
}

FeatureExtractionOptions Options() {
  FeatureExtractionOptions options;
  options.front_end = feat::FrontEndOptions::Standard("mfcc", 8000);
  options.front_end.dither = 1.0;
  options.coding = "plain";
  return options;
}

TEST(FeatureExtraction, WritesFeaturesStatisticsAndLists) {
  const TemporaryFolder folder;
  MakeData(folder.path());
  const DataDir dir = DataDir::Load(folder.path());
  const auto result = ExtractFeatures(dir, Options(), folder / "out", 2);
  EXPECT_EQ(result.utterances, 4);
  EXPECT_EQ(result.dim, 13);
  EXPECT_NEAR(result.audio_s, 1.8, 1e-9);
  const RandomAccessReader<Matrix> feats((folder / "out/feats.scp").string());
  const feat::FrontEnd front_end(Options().front_end);
  const Matrix expected =
      front_end.Compute(feat::ReadAudio(folder / "bob-2.wav").samples, feat::UtteranceSeed("bob-2"));
  const Matrix found = feats.Get("bob-2");
  ASSERT_EQ(found.rows(), expected.rows());
  for (int64_t i = 0; i < found.size(); ++i) ASSERT_EQ(found.data()[i], expected.data()[i]);
  const RandomAccessReader<DoubleMatrix> cmvn((folder / "out/cmvn.scp").string());
  const auto stats = feat::CmvnStats::FromMatrix(cmvn.Get("bob"));
  EXPECT_EQ(stats.count(), feats.Get("bob-2").rows() + feats.Get("bob-3").rows());
  EXPECT_EQ(ReadFile(folder / "out/utt2spk"), ReadFile(folder / "utt2spk"));
  EXPECT_EQ(ReadFile(folder / "out/text"), ReadFile(folder / "text"));
  EXPECT_EQ(ReadFrontEnd(folder / "out").sample_rate_hz, 8000);
  EXPECT_FALSE(fs::exists(folder / "out/failed.txt"));
}

TEST(FeatureExtraction, DoesNotDependOnThreads) {
  const TemporaryFolder folder;
  MakeData(folder.path());
  const DataDir dir = DataDir::Load(folder.path());
  FeatureExtractionOptions options = Options();
  options.augmented_copies = 2;
  options.augment.noise_probability = options.augment.reverb_probability = 0.5;
  ExtractFeatures(dir, options, folder / "one", 1);
  ExtractFeatures(dir, options, folder / "three", 3);
  EXPECT_EQ(ReadFile(folder / "one/feats.ark"), ReadFile(folder / "three/feats.ark"));
  EXPECT_EQ(ReadFile(folder / "one/cmvn.ark"), ReadFile(folder / "three/cmvn.ark"));
}

TEST(FeatureExtraction, MakesCopiesWithNamesOfTheirOwn) {
  const TemporaryFolder folder;
  MakeData(folder.path());
  FeatureExtractionOptions options = Options();
  options.speeds = {0.9};
  options.augmented_copies = 1;
  options.augment.noise_probability = 1.0;
  const auto result = ExtractFeatures(DataDir::Load(folder.path()), options, folder / "out", 1);
  EXPECT_EQ(result.utterances, 12);
  const RandomAccessReader<Matrix> feats((folder / "out/feats.scp").string());
  EXPECT_NEAR(static_cast<double>(feats.Get("sp0.9-ann-1").rows()),
              static_cast<double>(feats.Get("ann-1").rows()) / 0.9, 3);
  EXPECT_EQ(feats.Get("aug1-ann-1").rows(), feats.Get("ann-1").rows());
  EXPECT_NE(ReadFile(folder / "out/utt2spk").find("sp0.9-ann-1 sp0.9-ann\n"), std::string::npos);
  EXPECT_NE(ReadFile(folder / "out/text").find("aug1-bob-3 A B\n"), std::string::npos);
  const std::string noises = ReadFile(folder / "out/utt2noise");
  EXPECT_EQ(std::count(noises.begin(), noises.end(), '\n'), 12);
  for (const char* line : {"ann-1 clean\n", "sp0.9-ann-1 clean\n"}) EXPECT_NE(noises.find(line), std::string::npos);
  EXPECT_EQ(noises.find("aug1-ann-1 clean"), std::string::npos);
  // A list of an earlier time says nothing of this one.
  options.augment.noise_probability = 0;
  ExtractFeatures(DataDir::Load(folder.path()), options, folder / "out", 1);
  EXPECT_FALSE(std::filesystem::exists(folder / "out/utt2noise"));
}

TEST(FeatureExtraction, HoldsNoisesOnceForAllCopies) {
  if (antiphon::testing::kSanitized) GTEST_SKIP() << "a sanitizer has an allocator of its own";
  const TemporaryFolder folder;
  MakeData(folder.path());
  feat::Waveform noise{std::vector<float>(1 << 20), 8000};  // 4 MB
  for (size_t i = 0; i < noise.samples.size(); ++i) noise.samples[i] = i % 2 == 0 ? 100.0F : -100.0F;
  feat::WriteWav(folder / "noise.wav", noise);
  FeatureExtractionOptions options = Options();
  options.originals = false;
  options.augmented_copies = 50;
  options.augment.noise_files = {(folder / "noise.wav").string()};
  const DataDir dir = DataDir::Load(folder.path());
  const double before = antiphon::testing::PeakMegabytes();
  EXPECT_EQ(ExtractFeatures(dir, options, folder / "out", 1).utterances, 200);
  EXPECT_LT(antiphon::testing::PeakMegabytes() - before, 60);
}

TEST(FeatureExtraction, EveryUtteranceAndCopyDrawsItsVolume) {
  const TemporaryFolder folder;
  MakeData(folder.path());
  FeatureExtractionOptions options = Options();
  options.front_end.dither = 0;
  options.speeds = {0.9};
  const DataDir dir = DataDir::Load(folder.path());
  ExtractFeatures(dir, options, folder / "plain", 1);
  options.volume_low = 0.125;
  options.volume_high = 2;
  ExtractFeatures(dir, options, folder / "varied", 1);
  const RandomAccessReader<Matrix> plain((folder / "plain/feats.scp").string());
  const RandomAccessReader<Matrix> varied((folder / "varied/feats.scp").string());
  std::set<int> shifts;
  for (const char* utterance : {"ann-1", "sp0.9-ann-1", "bob-2", "sp0.9-bob-2"}) {
    const Matrix a = plain.Get(utterance), b = varied.Get(utterance);
    ASSERT_EQ(a.rows(), b.rows());
    // The zeroth cepstrum moves with the logarithm of the power.
    double moved = 0;
    for (int64_t t = 0; t < a.rows(); ++t) moved += static_cast<double>(b(t, 0) - a(t, 0));
    shifts.insert(static_cast<int>(100 * moved / static_cast<double>(a.rows())));
  }
  EXPECT_EQ(shifts.size(), 4u);
  EXPECT_FALSE(shifts.contains(0));
  EXPECT_FALSE(std::filesystem::exists(folder / "varied/utt2noise"));
}

TEST(FeatureExtraction, ListsEveryUtteranceThatFailsAndWritesNothing) {
  const TemporaryFolder folder;
  MakeData(folder.path());
  const std::string whole = ReadFile(folder / "ann-1.wav");
  WriteFileAtomically(folder / "ann-1.wav", whole.substr(0, whole.size() / 2));
  feat::WriteWav(folder / "bob-2.wav", {std::vector<float>(100, 1.0f), 8000});
  const DataDir dir = DataDir::Load(folder.path());
  FeatureExtractionOptions options = Options();
  try {
    ExtractFeatures(dir, options, folder / "out", 2);
    FAIL() << "no error";
  } catch (const InputError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("2 of 4"), std::string::npos) << what;
    EXPECT_NE(what.find("ann-1"), std::string::npos);
    EXPECT_NE(what.find("cut short"), std::string::npos);
    EXPECT_NE(what.find("bob-2"), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(folder / "out/feats.ark"));
  options.on_error = "skip";
  const auto result = ExtractFeatures(dir, options, folder / "out", 2);
  EXPECT_EQ(result.utterances, 2);
  EXPECT_EQ(result.failed.size(), 2u);
  EXPECT_NE(ReadFile(folder / "out/failed.txt").find("ann-1 "), std::string::npos);
}

TEST(FeatureExtraction, LeavesNoTranscriptsOfAnEarlierExtraction) {
  const TemporaryFolder folder;
  MakeData(folder.path());
  ExtractFeatures(DataDir::Load(folder.path()), Options(), folder / "out", 2);
  ASSERT_TRUE(fs::exists(folder / "out/text"));
  fs::remove(folder / "text");
  ExtractFeatures(DataDir::Load(folder.path()), Options(), folder / "out", 2);
  EXPECT_FALSE(fs::exists(folder / "out/text"));
}

TEST(FeatureExtraction, ResamplesOrTakesTheNativeRate) {
  const TemporaryFolder folder;
  MakeData(folder.path(), 11025);
  const DataDir dir = DataDir::Load(folder.path());
  FeatureExtractionOptions options = Options();
  const auto resampled = ExtractFeatures(dir, options, folder / "a", 1);
  EXPECT_EQ(resampled.sample_rate_hz, 8000);
  EXPECT_EQ(resampled.resampled, 4);
  options.native_rate = true;
  const auto native = ExtractFeatures(dir, options, folder / "b", 1);
  EXPECT_EQ(native.sample_rate_hz, 11025);
  EXPECT_EQ(native.resampled, 0);
  options.native_rate = false;
  options.usual_rate = true;
  EXPECT_EQ(ExtractFeatures(dir, options, folder / "usual", 1).sample_rate_hz, 11000);
  options.like = (folder / "a").string();
  EXPECT_EQ(ExtractFeatures(dir, options, folder / "c", 1).sample_rate_hz, 8000);
  EXPECT_EQ(ReadFile(folder / "a/feats.ark"), ReadFile(folder / "c/feats.ark"));
}

TEST(FeatureExtraction, CopiesAtOtherSpeedsHaveZerosAtTimesOfTheirOwn) {
  const TemporaryFolder folder;
  Rng rng(6);
  feat::Waveform wave{std::vector<float>(16000), 8000};
  for (size_t i = 8000; i < 16000; ++i) wave.samples[i] = static_cast<float>(500 * rng.Normal());
  feat::WriteWav(folder / "a.wav", wave);
  WriteFileAtomically(folder / "wav.scp", "a a.wav\n");
  WriteFileAtomically(folder / "utt2spk", "a s\n");
  FeatureExtractionOptions options = Options();
  options.speeds = {0.5};
  ExtractFeatures(DataDir::Load(folder.path()), options, folder / "out", 1);
  FeatureSourceOptions tables;
  tables.features = (folder / "out/feats.scp").string();
  tables.zeros = (folder / "out/utt2zeros").string();
  const FeatureSource source(tables);
  EXPECT_TRUE(source.Zeros("a").Cover(0.1, 0.9, 0));
  EXPECT_FALSE(source.Zeros("a").Cover(0.1, 1.1, 0));
  EXPECT_TRUE(source.Zeros("sp0.5-a").Cover(0.1, 1.9, 0));
  EXPECT_FALSE(source.Zeros("sp0.5-a").Cover(0.1, 2.1, 0));
}

// A recording of more than two minutes, half of it zeros, beside a short one.
TEST(FeatureExtraction, LongRecordingsInPartsAreTheSameFrames) {
  const TemporaryFolder folder;
  Rng rng(5);
  feat::Waveform wave{std::vector<float>(8000 * 130), 8000};
  for (size_t i = 0; i < wave.samples.size(); ++i)
    wave.samples[i] = i < 8000 * 60 ? 0.0F : std::clamp(static_cast<float>(500 * rng.Normal()), -32000.0F, 32000.0F);
  feat::WriteWav(folder / "long.wav", wave);
  wave.samples.resize(8000);
  feat::WriteWav(folder / "a.wav", wave);
  WriteFileAtomically(folder / "wav.scp", "a a.wav\nlong long.wav\n");
  WriteFileAtomically(folder / "utt2spk", "a s\nlong s\n");
  const DataDir dir = DataDir::Load(folder.path());
  FeatureExtractionOptions options = Options();
  options.front_end.sample_rate_hz = 7000;  // so that they are resampled
  options.front_end.high_freq_hz = 0;
  const auto whole = ExtractFeatures(dir, options, folder / "whole", 2);
  options.long_in_parts = true;
  const auto parted = ExtractFeatures(dir, options, folder / "parts", 2);
  EXPECT_EQ(parted.frames, whole.frames);
  EXPECT_EQ(parted.utterances, 2);
  EXPECT_NEAR(parted.audio_s, whole.audio_s, 1e-9);
  EXPECT_EQ(parted.resampled, 2);

  FeatureSourceOptions tables;
  tables.features = (folder / "whole/feats.scp").string();
  tables.cmvn = (folder / "whole/cmvn.scp").string();
  tables.utt2spk = (folder / "whole/utt2spk").string();
  tables.zeros = (folder / "whole/utt2zeros").string();
  const FeatureSource expected(tables);
  tables.features = (folder / "parts/feats.scp").string();
  tables.cmvn = (folder / "parts/cmvn.scp").string();
  tables.zeros = (folder / "parts/utt2zeros").string();
  EXPECT_FALSE(FeatureSource(tables).Has("long"));
  tables.parts = (folder / "parts").string();
  const FeatureSource found(tables);
  EXPECT_EQ(found.keys(), expected.keys());
  for (const std::string& utt_id : found.keys()) {
    const Matrix a = found.Get(utt_id), b = expected.Get(utt_id);
    ASSERT_EQ(a.rows(), b.rows()) << utt_id;
    EXPECT_TRUE(std::equal(a.data(), a.data() + a.size(), b.data())) << utt_id;
    for (const FeatureSource* source : {&found, &expected}) {
      EXPECT_TRUE(source->Zeros(utt_id).Cover(0.1, 0.9, 0)) << utt_id;
      EXPECT_EQ(source->Zeros(utt_id).Cover(0.1, 59, 0), utt_id == "long");
      EXPECT_FALSE(source->Zeros(utt_id).Cover(58, 62, 0));
    }
  }
  EXPECT_EQ(found.NumParts("a"), 1);
  ASSERT_EQ(found.NumParts("long"), 3);
  EXPECT_EQ(found.NumFrames("long"), expected.Get("long").rows());
  EXPECT_EQ(found.GetPart("long", 0).rows(), kPartFrames);
  EXPECT_EQ(found.Sizes({"long"})[0], found.NumFrames("long") * 13);
}

}  // namespace
}  // namespace antiphon::data
