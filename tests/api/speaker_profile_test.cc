// Speakers' profiles through the public headers; the library is only used to make models and profiles.
#include "antiphon/speaker_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "antiphon/model.h"
#include "antiphon/recognizer.h"
#include "antiphon/stream_scorer.h"
#include "api/error_of.h"
#include "api/folded_profile.h"
#include "api/two_words.h"

namespace antiphon {
namespace {

using ::testing::AllOf;
using testing::Folded;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::PowersOfTwo;

// A model that three share: Anna's profile changes hidden values, Ben's the features, a guest has none.
class SpeakerProfiles : public ::testing::Test {
 protected:
  SpeakerProfiles() {
    system_.network.Save(File("net"));
    Folded(system_.network, hidden_, "affine2.weight").Save(File("anna-net"));
    Folded(system_.network, on_features_, "affine1.weight").Save(File("ben-net"));
    SaveProfile({hidden_}, "anna");
    SaveProfile({on_features_}, "ben");
  }
  std::string File(const std::string& name) const { return (system_.folder / (name + ".safetensors")).string(); }
  std::string Graph() const { return (system_.folder / "graph").string(); }

  void SaveProfile(std::vector<nn::SpeakerProfile::Part> parts, const std::string& speaker) const {
    nn::SpeakerProfile profile;
    profile.parts = std::move(parts);
    profile.model = nn::ModelId(system_.network.network);
    profile.speaker = speaker;
    profile.Save(File(speaker));
  }

  static std::vector<float> Features(uint64_t seed) {
    Rng rng(seed);
    std::vector<float> features(static_cast<size_t>(kFrames * testing::kCeps));
    for (float& x : features) x = static_cast<float>(rng.Normal());
    return features;
  }

  static constexpr int kFrames = 20;
  testing::TwoWords system_{false};
  const nn::SpeakerProfile::Part hidden_ = PowersOfTwo("sigmoid1", testing::kHidden, 1);
  const nn::SpeakerProfile::Part on_features_ = PowersOfTwo("", testing::kCeps, 2);
};

TEST_F(SpeakerProfiles, MakeAModelTheSpeakersOwn) {
  const Model model(File("net"));
  const std::vector<float> features = Features(3);
  EXPECT_EQ(model.LoadProfile(File("anna")).speaker(), "anna");
  EXPECT_EQ(SpeakerProfile().speaker(), "");
  EXPECT_EQ(model.LogLikelihoods(features, SpeakerProfile()), model.LogLikelihoods(features));
  for (const std::string speaker : {"anna", "ben"}) {
    const std::vector<float> own = Model(File(speaker + "-net")).LogLikelihoods(features);
    EXPECT_EQ(model.LogLikelihoods(features, model.LoadProfile(File(speaker))), own) << speaker;
    EXPECT_NE(model.LogLikelihoods(features), own) << speaker;
  }
}

TEST_F(SpeakerProfiles, StreamsOfSeveralSpeakersShareABatch) {
  const Model model(File("net"));
  StreamScorer scorer(model, {.batch = 3 * kFrames});
  struct Speaker {
    SpeakerProfile profile;
    std::vector<float> features;
    StreamScorer::Stream stream;
  };
  std::vector<Speaker> speakers;
  for (const std::string file : {"anna", "", "ben"}) {
    const SpeakerProfile profile = file.empty() ? SpeakerProfile() : model.LoadProfile(File(file));
    speakers.push_back({profile, Features(10 + speakers.size()), scorer.Open(profile)});
  }
  for (Speaker& speaker : speakers) {
    const std::span<const float> all = speaker.features;
    speaker.stream.Accept(all.first(5 * testing::kCeps), 0);
    speaker.stream.Accept(all.subspan(5 * testing::kCeps), 0);
    EXPECT_TRUE(speaker.stream.Take().empty());
    speaker.stream.Finish();
  }
  EXPECT_EQ(scorer.RunBatch(0), 3 * kFrames);
  EXPECT_EQ(scorer.RunBatch(0), 0);
  for (Speaker& speaker : speakers) {
    EXPECT_EQ(speaker.stream.Take(), model.LogLikelihoods(speaker.features, speaker.profile));
    EXPECT_TRUE(speaker.stream.Take().empty());
  }
  EXPECT_NE(model.LogLikelihoods(speakers[0].features, speakers[0].profile),
            model.LogLikelihoods(speakers[0].features));
}

TEST_F(SpeakerProfiles, StreamsRefuseWhatTheyCannotTake) {
  const Model model(File("net"));
  EXPECT_THAT(MessageOf([&] { StreamScorer(model, {.batch = 129}); }), HasSubstr("batch is 129, expected 1 … 128"));
  EXPECT_THAT(MessageOf([&] { StreamScorer(model, {.max_streams = 0}); }), HasSubstr("max_streams is 0"));
  EXPECT_THAT(MessageOf([&] { StreamScorer(model, {.deadline_s = 0}); }), HasSubstr("deadline_s is 0"));
  StreamScorer scorer(model, {.max_streams = 1});
  {
    StreamScorer::Stream only = scorer.Open();
    EXPECT_THAT(MessageOf([&] { scorer.Open(); }), HasSubstr("1 streams are open"));
    EXPECT_THAT(MessageOf([&] { only.Accept(std::vector<float>(7), 0); }), HasSubstr("7 values"));
    EXPECT_THAT(MessageOf([&] { only.Accept(std::vector<float>(testing::kCeps, NAN), 0); }), HasSubstr("finite"));
    only.Accept(Features(1), 0);
    only.Finish();
    EXPECT_THAT(MessageOf([&] { only.Accept(Features(1), 0); }), HasSubstr("open another one"));
    while (scorer.RunBatch(0) > 0) {
    }
    EXPECT_EQ(only.Take(), model.LogLikelihoods(Features(1)));
  }
  // Its end gave the place free, and streams outlive who opened them.
  StreamScorer::Stream next = scorer.Open();
  scorer = StreamScorer(model);
  next.Accept(Features(1), 0);
}

TEST_F(SpeakerProfiles, RecognizeAsTheSpeakersOwnNetworkDoes) {
  SaveProfile({on_features_, hidden_}, "both");
  Folded(Folded(system_.network, on_features_, "affine1.weight"), hidden_, "affine2.weight").Save(File("own"));
  std::vector<float> audio = testing::Noise(30000);
  for (float& x : audio) x /= 32768.0F;
  const auto described = [](const Recognition& heard) {
    std::string text = heard.text;
    for (const RecognizedWord& word : heard.words) {
      text += " " + std::to_string(word.start_s) + " " + std::to_string(word.confidence);
    }
    return text;
  };
  const Recognizer recognizer(File("net"), Graph());
  const std::string own = described(Recognizer(File("own"), Graph()).Recognize(audio, testing::kRateHz));
  const SpeakerProfile profile = recognizer.LoadProfile(File("both"));
  EXPECT_EQ(described(recognizer.Recognize(audio, testing::kRateHz, {.profile = profile})), own);
  EXPECT_NE(described(recognizer.Recognize(audio, testing::kRateHz)), own);
}

TEST_F(SpeakerProfiles, AreRefusedByOthersThanTheirModel) {
  const Model model(File("net")), again(File("net")), other(File("anna-net"));
  const auto for_another = AllOf(HasSubstr(File("anna")), HasSubstr("the profile of 'anna' is for model"));
  EXPECT_THAT(MessageOf([&] { other.LoadProfile(File("anna")); }), for_another);
  EXPECT_THAT(MessageOf([&] { Recognizer(File("anna-net"), Graph()).LoadProfile(File("anna")); }), for_another);
  EXPECT_THAT(MessageOf([&] { Recognizer(File("gmm"), Graph()).LoadProfile(File("anna")); }),
              HasSubstr("Gaussian mixture"));
  const SpeakerProfile anna = model.LoadProfile(File("anna"));
  const auto not_loaded_here = HasSubstr("the profile of 'anna' was loaded by another model");
  EXPECT_THAT(MessageOf([&] { again.LogLikelihoods(Features(1), anna); }), not_loaded_here);
  EXPECT_THAT(MessageOf([&] { StreamScorer(again).Open(anna); }), not_loaded_here);
  EXPECT_THAT(
      MessageOf([&] {
        Recognizer(File("net"), Graph()).Recognize(std::vector<float>(8000, 0.5F), testing::kRateHz, {.profile = anna});
      }),
      not_loaded_here);
}

TEST_F(SpeakerProfiles, BrokenFilesAreRefusedByName) {
  const Model model(File("net"));
  EXPECT_THAT(MessageOf([&] { model.LoadProfile(File("nobody")); }), HasSubstr(File("nobody")));
  EXPECT_THAT(MessageOf([&] { model.LoadProfile(File("net")); }),
              AllOf(HasSubstr(File("net")), HasSubstr("no speaker's profile")));
  std::filesystem::resize_file(File("anna"), std::filesystem::file_size(File("anna")) - 4);
  EXPECT_THAT(MessageOf([&] { model.LoadProfile(File("anna")); }), HasSubstr(File("anna")));
  for (const float bad : {NAN, std::numeric_limits<float>::infinity()}) {
    nn::SpeakerProfile::Part part = on_features_;
    part.scale(0, 1) = bad;
    SaveProfile({hidden_, part}, "ben");
    EXPECT_THAT(MessageOf([&] { model.LoadProfile(File("ben")); }),
                AllOf(HasSubstr(File("ben")), HasSubstr("part 1 has values that are not finite")));
  }
  SaveProfile({PowersOfTwo("sigmoid1", testing::kHidden + 1, 1)}, "wide");
  EXPECT_THAT(MessageOf([&] { model.LoadProfile(File("wide")); }),
              AllOf(HasSubstr(File("wide")), HasSubstr("13 values behind layer 'sigmoid1'")));
}

}  // namespace
}  // namespace antiphon
