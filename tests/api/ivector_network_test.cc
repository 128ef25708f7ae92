// A network that reads i-vectors: the same scores whole, in pieces and live, and a speaker's memory from one utterance
// to the next, in files too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "antiphon/recognizer.h"
#include "api/live_recognizer.h"
#include "api/two_words.h"
#include "base/error.h"
#include "base/file.h"
#include "feat/audio.h"
#include "hmm/ivector.h"
#include "random_matrix.h"

namespace antiphon {
namespace {

using ::testing::HasSubstr;
using testing::kCeps;
using testing::Noise;
using testing::RandomMatrix;

class IvectorNetwork : public ::testing::Test {
 protected:
  static constexpr int kNumbers = 3;

  IvectorNetwork() {
    extractor_.Save(Path("extractor.safetensors"));
    nn::Model network = system_.network.Clone();
    network.feature_config += "mean-window = 100\nmean-prior = [1, 2, 3, 4, 5]\n";
    network.feature_dim = kCeps + kNumbers;
    network.network = nn::Network(
        Config::Parse("layer = [{type = 'affine', dim = 12, init-scale = 3.0}, {type = 'sigmoid'}, {type = 'affine', "
                      "init-scale = 20.0}]",
                      "net.toml"),
        6 * network.feature_dim, system_.gmm.hmm.num_pdfs(), 7);
    const MappedFile file(Path("extractor.safetensors"));
    network.ivector_extractor.assign(file.bytes().begin(), file.bytes().end());
    network.Save(Path("net.safetensors"));
    model_ = AcousticModel::Load(Path("net.safetensors"), {});
  }
  std::string Path(const std::string& name) const { return (system_.folder / name).string(); }

  static hmm::IvectorExtractor Extractor() {
    constexpr int kGaussians = 4, kDim = 4;
    Matrix variances(kGaussians, kDim);
    std::fill_n(variances.data(), variances.size(), 40.0F);
    hmm::GmmSet background({0, kGaussians}, std::vector<float>(kGaussians, 0.25F), RandomMatrix(kGaussians, kDim, 3),
                           std::move(variances));
    hmm::IvectorExtractor extractor(std::move(background), kNumbers, 5, {},
                                    hmm::FeatureTransform(3, 3, RandomMatrix(kDim, 7 * kCeps + 1, 4)), 10);
    DoubleMatrix t(kGaussians * kDim, kNumbers);
    Rng rng(6);
    for (int64_t i = 0; i < t.size(); ++i) t.data()[i] = rng.Normal();
    extractor.SetVariability(std::move(t));
    return extractor;
  }

  static std::vector<std::vector<float>> ScoresOf(ScoreSource& source) {
    std::vector<std::vector<float>> scores;
    for (int t = 0; t < source.num_frames_ready(); ++t) {
      scores.emplace_back();
      for (int pdf = 0; pdf < source.num_pdfs(); ++pdf) scores.back().push_back(source.LogLikelihood(t, pdf));
    }
    return scores;
  }

  // All that is heard of audio that comes in pieces of this size, to the last bit.
  std::vector<std::string> Live(const std::vector<float>& audio, size_t piece, RememberedSpeaker* memory = nullptr) {
    std::vector<std::string> texts;
    LiveRecognizer live(
        *model_, graph_, {}, {0.1, 0.0}, {},
        [&](const LiveResult& result) {
          if (!result.final) return;
          std::string text;
          for (const auto& state : result.recognition.lattice.states) {
            for (const auto& arc : state.arcs) text += fmt::format(" {} {}", arc.word, arc.cost.acoustic);
          }
          texts.push_back(text);
        },
        nullptr, memory);
    for (size_t at = 0; at < audio.size(); at += piece) {
      live.Accept(std::span(audio).subspan(at, std::min(piece, audio.size() - at)));
    }
    live.Finish();
    return texts;
  }

  const testing::TwoWords system_{false};
  const hmm::IvectorExtractor extractor_ = Extractor();
  const decode::Graph graph_ = decode::Graph::Load(system_.folder / "graph", system_.gmm.hmm);
  std::unique_ptr<AcousticModel> model_;
};

TEST_F(IvectorNetwork, ScoresAreTheSameWholeInPiecesAndWithVectorsMadeBefore) {
  const Matrix frames = RandomMatrix(150, kCeps, 8);
  const auto whole = ScoresOf(*model_->Score(frames));
  ASSERT_EQ(whole.size(), 150U);
  hmm::OnlineIvectorState heard, streamed;
  EXPECT_EQ(ScoresOf(*model_->Score(frames, nullptr, &heard)), whole);
  EXPECT_GT(heard.count, 10);
  for (const int64_t piece : {1, 7, 60}) {
    streamed = {};
    const auto stream = model_->Stream(nullptr, nullptr, &streamed);
    for (int64_t at = 0; at < 150; at += piece) {
      stream->Accept(frames.view().Rows(at, std::min<int64_t>(piece, 150 - at)), at + piece >= 150);
    }
    EXPECT_EQ(ScoresOf(*stream), whole) << piece;
    EXPECT_EQ(streamed, heard) << piece;
  }
  hmm::OnlineIvectors vectors(model_->ivectors());
  EXPECT_EQ(ScoresOf(*model_->Score(vectors.Accept(frames, true))), whole);
  // What was heard before changes what is heard now.
  EXPECT_NE(ScoresOf(*model_->Score(frames, nullptr, &heard)), whole);
  EXPECT_TRUE(ScoresOf(*model_->Score(Matrix(0, kCeps))).empty());
}

TEST_F(IvectorNetwork, IsHeardTheSameHoweverTheAudioIsCut) {
  const std::vector<float> audio = Noise(16000);
  const auto whole = Live(audio, audio.size());
  ASSERT_FALSE(whole.empty());
  for (const size_t piece : {37U, 800U, 4001U}) EXPECT_EQ(Live(audio, piece), whole) << piece;
}

TEST_F(IvectorNetwork, MemoryGoesOnBitForBitFromAFile) {
  const std::vector<float> first = Noise(16000), second = Noise(12000);
  RememberedSpeaker memory{.speaker = "anna"};
  const auto nobody = Live(second, 800);
  Live(first, 800, &memory);
  EXPECT_GT(memory.mean.frames, 0);
  EXPECT_GT(memory.heard.count, 0);
  SaveMemory(memory, *model_, Path("anna.safetensors"));
  RememberedSpeaker restored = LoadMemory(Path("anna.safetensors"), *model_);
  EXPECT_EQ(restored, memory);
  const auto known = Live(second, 800, &memory);
  EXPECT_NE(known, nobody);
  EXPECT_EQ(Live(second, 411, &restored), known);
  EXPECT_EQ(restored, memory);
  // Silence that was switched off says nothing.
  Live(std::vector<float>(8000, 0.0F), 800, &restored);
  EXPECT_EQ(restored, memory);
}

TEST_F(IvectorNetwork, MemoriesOfOtherModelsAndSpoiltOnesAreRefused) {
  RememberedSpeaker memory;
  Live(Noise(16000), 800, &memory);
  const std::string file = Path("anna.safetensors");
  const auto message = [&](const AcousticModel& model) -> std::string {
    try {
      LoadMemory(file, model);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  nn::Model other = nn::Model::Load(Path("net.safetensors"));
  other.feature_config += "mean-prior-frames = 7\n";
  other.Save(Path("other.safetensors"));
  SaveMemory(memory, *model_, file);
  EXPECT_EQ(message(*model_), "");
  EXPECT_THAT(message(*AcousticModel::Load(Path("other.safetensors"), {})), HasSubstr("another model"));
  memory.heard.linear[1] = NAN;
  SaveMemory(memory, *model_, file);
  EXPECT_THAT(message(*model_), HasSubstr("'heard.linear' has values that are not finite"));
  memory.heard.linear.resize(2);
  SaveMemory(memory, *model_, file);
  EXPECT_THAT(message(*model_), HasSubstr("'heard.linear' has 2 numbers, expected 3"));
  memory.heard.linear.assign(3, 0.0);
  memory.heard.count = -1;
  SaveMemory(memory, *model_, file);
  EXPECT_THAT(message(*model_), HasSubstr("'heard.count'"));
}

TEST_F(IvectorNetwork, RecognizersRememberAsListeningDoes) {
  feat::Waveform wave{Noise(16000), testing::kRateHz};
  for (float& x : wave.samples) x = std::clamp(std::round(x), -32768.0F, 32767.0F);
  feat::WriteWav(Path("noise.wav"), wave);
  const Recognizer recognizer(Path("net.safetensors"), Path("graph"), {.beam = 4});
  SpeakerMemory anna("anna");
  const auto confidence = [](const Recognition& r) { return r.words.empty() ? -1.0 : r.words[0].confidence; };
  const Recognition first = recognizer.RecognizeFile(Path("noise.wav"), {.memory = &anna});
  EXPECT_EQ(confidence(first), confidence(recognizer.RecognizeFile(Path("noise.wav"))));
  recognizer.SaveMemory(anna, Path("anna.safetensors"));
  SpeakerMemory restored = recognizer.LoadMemory(Path("anna.safetensors"));
  EXPECT_EQ(restored.speaker(), "anna");
  const SpeakerMemory copy = anna;
  const Recognition second = recognizer.RecognizeFile(Path("noise.wav"), {.memory = &anna});
  EXPECT_NE(confidence(second), confidence(first));
  EXPECT_EQ(confidence(recognizer.RecognizeFile(Path("noise.wav"), {.memory = &restored})), confidence(second));
  recognizer.SaveMemory(anna, Path("anna.safetensors"));
  recognizer.SaveMemory(restored, Path("again.safetensors"));
  EXPECT_EQ(ReadFile(Path("anna.safetensors")), ReadFile(Path("again.safetensors")));
  recognizer.SaveMemory(copy, Path("again.safetensors"));
  EXPECT_NE(ReadFile(Path("anna.safetensors")), ReadFile(Path("again.safetensors")));
  const Recognizer another(Path("net.safetensors"), Path("graph"), {.beam = 4});
  EXPECT_THROW(another.RecognizeFile(Path("noise.wav"), {.memory = &anna}), UsageError);
}

TEST_F(IvectorNetwork, RefusesAnExtractorThatDoesNotFit) {
  nn::Model network = nn::Model::Load(Path("net.safetensors"));
  const auto message = [&]() -> std::string {
    network.Save(Path("bad.safetensors"));
    try {
      AcousticModel::Load(Path("bad.safetensors"), {});
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message(), "");
  network.ivector_extractor.resize(network.ivector_extractor.size() / 2);
  EXPECT_THAT(message(), HasSubstr("ivector_extractor"));
  hmm::IvectorExtractor(extractor_.background(), 2, 1, {}, extractor_.transform()).Save(Path("two.safetensors"));
  const MappedFile file(Path("two.safetensors"));
  network.ivector_extractor.assign(file.bytes().begin(), file.bytes().end());
  EXPECT_THAT(message(), HasSubstr("takes 8 features per frame, but its i-vector extractor is for 5 and gives 2 more"));
}

}  // namespace
}  // namespace antiphon
