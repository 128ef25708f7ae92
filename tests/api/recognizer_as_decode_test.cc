// antiphon::Recognizer and a decoding (pipeline/decode.h) of the same recording say the same, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "antiphon/recognizer.h"
#include "api/two_words.h"
#include "base/error.h"
#include "base/file.h"
#include "base/team.h"
#include "decode/lm/ngram_estimate.h"
#include "feat/audio.h"
#include "pipeline/decode.h"
#include "pipeline/rounded_seconds.h"
#include "pipeline/speaker_transforms.h"
#include "train/warm_start.h"

namespace antiphon {
namespace {

using testing::Noise;

class AsDecode : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (system_.folder / name).string(); }

  // Of the network or the Gaussians; on the features that a default front end has, dither included.
  std::string Model(bool network, const std::string& normalisation = "") {
    const std::string front_end = "kind = 'mfcc'\nsample-rate = 8000\nmel-bins = 10\nceps = 5\n";
    const std::string name = Path(network ? "net.safetensors" : "gmm.safetensors");
    if (network) {
      nn::Model model = nn::Model::Load(name);
      model.feature_config = front_end;
      if (!normalisation.empty()) model.descriptions[train::kNormalisation] = normalisation;
      model.Save(name);
    } else {
      hmm::GmmModel model = hmm::GmmModel::Load(name);
      model.features = front_end;
      model.Save(name);
    }
    return name;
  }

  // A file of noise, its middle third muted if asked for.
  std::string Speech(int seconds, bool muted = false) {
    feat::Waveform wave{Noise(testing::kRateHz * seconds), testing::kRateHz};
    for (float& x : wave.samples) x = std::clamp(std::round(x), -32768.0F, 32767.0F);
    const auto third = static_cast<std::ptrdiff_t>(wave.samples.size() / 3);
    if (muted) std::fill_n(wave.samples.begin() + third, third, 0.0F);
    feat::WriteWav(Path("noise.wav"), wave);
    return Path("noise.wav");
  }

  nlohmann::json Decode(const std::string& model, const std::string& speech, int adapt_passes = 2) {
    pipeline::DecodeRequest request;
    request.model = model;
    request.graph = Path("graph");
    request.data = speech;
    request.out = Path("out");
    request.recognize.search.beam = kSettings.beam;
    request.lattices = false;
    request.adaptation.passes = adapt_passes;
    request.rescore_arpa = rescore_arpa_;
    request.graph_arpa = graph_arpa_;
    std::filesystem::remove_all(request.out);
    const pipeline::DecodeReport report = pipeline::Decode(request, Team::Alone(), 1);
    EXPECT_EQ(report.utterances, 1U);
    EXPECT_EQ(report.speaker_transforms, 1U);
    return nlohmann::json::parse(ReadFile(Path("out/results.jsonl")));
  }

  static void ExpectSame(const Recognition& recognised, const nlohmann::json& decoded) {
    EXPECT_EQ(recognised.text, decoded.at("text"));
    EXPECT_EQ(recognised.remark, decoded.value("remark", ""));
    ASSERT_EQ(recognised.words.size(), decoded.at("words").size());
    for (size_t i = 0; i < recognised.words.size(); ++i) {
      const RecognizedWord& word = recognised.words[i];
      const auto& expected = decoded.at("words").at(i);
      EXPECT_EQ(word.word, expected.at("word"));
      EXPECT_EQ(pipeline::RoundedSeconds(word.start_s), expected.at("start"));
      EXPECT_EQ(pipeline::RoundedSeconds(word.end_s - word.start_s), expected.at("duration"));
      EXPECT_EQ(word.confidence, expected.at("confidence").get<double>()) << "word " << i;
    }
  }

  // Whether the decoding estimated a transform at all.
  bool Adapted() const {
    const auto transforms = pipeline::ReadSpeakerTransforms(Path("out/fmllr.scp"));
    const Matrix& transform = transforms.begin()->second;
    return transform(0, 0) != 1.0F;
  }

  // A narrow beam is quick.
  inline static const RecognizerSettings kSettings{.beam = 4};
  const testing::TwoWords system_{true};
  std::string rescore_arpa_, graph_arpa_;
};

// Whole; whole, with speech enough to adapt to; in pieces; in pieces whose features are stored in parts.
TEST_F(AsDecode, SaysTheSameOfAnyLength) {
  struct Case {
    bool network;
    int seconds, adapt_passes;
  };
  for (const auto& [network, seconds, adapt_passes] : {Case{false, 3, 2}, Case{false, 15, 2}, Case{true, 3, 2},
                                                       Case{true, 15, 2}, Case{true, 32, 1}, Case{true, 122, 1}}) {
    SCOPED_TRACE(fmt::format("{}, {} s", network ? "network" : "Gaussians", seconds));
    const std::string model = Model(network), speech = Speech(seconds);
    RecognizerSettings settings = kSettings;
    settings.adapt_passes = adapt_passes;
    const auto decoded = Decode(model, speech, adapt_passes);
    EXPECT_GT(decoded.at("words").size(), 0U);
    EXPECT_EQ(Adapted(), seconds > 3);
    ExpectSame(Recognizer(model, Path("graph"), settings).RecognizeFile(speech), decoded);
  }
}

TEST_F(AsDecode, AdaptsUnlessItIsToldNotTo) {
  const std::string model = Model(true), speech = Speech(15);
  const Recognition adapted = Recognizer(model, Path("graph"), kSettings).RecognizeFile(speech);
  const Recognition plain =
      Recognizer(model, Path("graph"), {.beam = kSettings.beam, .adapt_passes = 0}).RecognizeFile(speech);
  ASSERT_FALSE(adapted.words.empty());
  ASSERT_FALSE(plain.words.empty());
  EXPECT_TRUE(adapted.text != plain.text || adapted.words[0].confidence != plain.words[0].confidence);
}

// The model says how its features are normalised; one speaker with one recording has its mean.
TEST_F(AsDecode, NormalisesAsTheModelSays) {
  std::vector<Recognition> all;
  for (const char* normalisation : {"mean", "mean-variance", "none"}) {
    SCOPED_TRACE(normalisation);
    const std::string model = Model(true, normalisation), speech = Speech(6);
    all.push_back(Recognizer(model, Path("graph"), kSettings).RecognizeFile(speech));
    ExpectSame(all.back(), Decode(model, speech));
  }
  EXPECT_NE(all[0].words[0].confidence, all[1].words[0].confidence);
  EXPECT_NE(all[0].words[0].confidence, all[2].words[0].confidence);
}

TEST_F(AsDecode, RescoresWithALargerLanguageModel) {
  const std::string model = Model(true), speech = Speech(6);
  const auto plain = Decode(model, speech);
  graph_arpa_ = Path("small.arpa");
  rescore_arpa_ = Path("large.arpa");
  WriteFileAtomically(graph_arpa_, decode::EstimateNgram({{"ONE", "TWO"}}, {}, {1, "witten-bell", 1}).ToArpa());
  WriteFileAtomically(rescore_arpa_,
                      decode::EstimateNgram({{"TWO", "TWO", "TWO"}, {"ONE"}}, {}, {3, "witten-bell", 1}).ToArpa());
  RecognizerSettings settings = kSettings;
  settings.graph_arpa = graph_arpa_;
  settings.rescore_arpa = rescore_arpa_;
  const auto decoded = Decode(model, speech);
  ExpectSame(Recognizer(model, Path("graph"), settings).RecognizeFile(speech), decoded);
  EXPECT_NE(decoded.at("words"), plain.at("words"));
  settings.graph_arpa = "";
  EXPECT_THROW(Recognizer(model, Path("graph"), settings), UsageError);
}

TEST_F(AsDecode, FindsNoWordsInZeros) {
  const std::string model = Model(true);
  const Recognizer recognizer(model, Path("graph"), kSettings);
  const std::string speech = Speech(45, /*muted=*/true);
  const auto decoded = Decode(model, speech);
  ExpectSame(recognizer.RecognizeFile(speech), decoded);
  for (const auto& word : decoded.at("words")) {
    const double start = word.at("start");
    EXPECT_TRUE(start < 16 || start > 28) << start;
  }
}

}  // namespace
}  // namespace antiphon
