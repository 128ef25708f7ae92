#include "api/live_recognizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "api/folded_profile.h"
#include "api/two_words.h"
#include "base/error.h"
#include "base/file.h"
#include "decode/lm/ngram_estimate.h"

namespace antiphon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Noise;

class Live : public ::testing::TestWithParam<bool> {
 protected:
  Live() {
    infer::NnetScorerOptions options;
    options.precision = "int8";
    Use(system_.network, options);
  }

  void Use(const nn::Model& network, const infer::NnetScorerOptions& options) {
    network.Save(system_.folder / "net.safetensors");
    model_ = AcousticModel::Load(system_.folder / "net.safetensors", options);
  }

  // All that is reported, as text to the last bit.
  std::vector<std::string> Run(const std::vector<float>& audio, uint64_t seed, const LiveOptions& options) {
    std::vector<std::string> reports;
    const auto note = [&](const LiveResult& result) {
      std::string text = fmt::format("{} {} {}:", result.final, result.begin_frame, result.num_frames);
      const auto& words = result.final ? result.recognition.best.words : result.partial.words;
      for (const int32_t word : words) text += fmt::format(" {}", word);
      if (result.final) {
        for (const auto& timed : result.recognition.times.words) text += fmt::format(" @{}", timed.begin_frame);
        for (const auto& state : result.recognition.lattice.states) {
          for (const auto& arc : state.arcs) {
            text += fmt::format(" [{} {} {} {}]", arc.next_state, arc.word, arc.cost.graph, arc.cost.acoustic);
          }
        }
      }
      reports.push_back(std::move(text));
    };
    const auto keep = [&](const LiveResult& result) {
      if (result.final) finals_.push_back(result.recognition);
      note(result);
    };
    finals_.clear();
    LiveRecognizer live(*model_, graph_, recognize_, {0.1, 0.0}, options, keep, profile_, memory_, rescorer_);
    Rng rng(seed);
    for (size_t at = 0; at < audio.size();) {
      const size_t most = seed == 0 ? audio.size() : (seed % 2 == 0 ? 50 : 5000);
      const size_t count = std::min(audio.size() - at, seed == 0 ? most : static_cast<size_t>(rng.Below(most)));
      live.Accept(std::span(audio).subspan(at, count));
      at += count;
    }
    live.Finish();
    return reports;
  }

  const testing::TwoWords system_{GetParam()};
  const std::filesystem::path folder_ = system_.folder.path();
  std::unique_ptr<AcousticModel> model_;
  const decode::Graph graph_ = decode::Graph::Load(system_.folder / "graph", system_.gmm.hmm);
  std::shared_ptr<const infer::BoundProfile> profile_;
  decode::RecognizeOptions recognize_;
  const decode::LmRescorer* rescorer_ = nullptr;
  RememberedSpeaker* memory_ = nullptr;
  std::vector<decode::Recognition> finals_;  // of the last Run
};

TEST_P(Live, GivesTheSameResultsHoweverTheAudioIsCut) {
  LiveOptions options;
  options.cmvn.min_window = 30;
  options.max_utterance_s = 0.9;  // so that there are several utterances
  for (const int samples : {0, 100, 799, 30000}) {
    const std::vector<float> audio = Noise(samples);
    const auto whole = Run(audio, 0, options);
    for (uint64_t seed = 1; seed <= 4; ++seed) EXPECT_EQ(Run(audio, seed, options), whole) << samples;
    int finals = 0;
    for (const std::string& report : whole) finals += report.starts_with("true") ? 1 : 0;
    if (samples == 30000) {
      EXPECT_GE(finals, 3);
      EXPECT_GT(std::ssize(whole), finals);
    } else {
      EXPECT_LE(finals, 1);
    }
  }
}

TEST_P(Live, WithHotwordsToo) {
  LiveOptions options;
  options.cmvn.min_window = 30;
  const std::vector<float> audio = Noise(12000);
  const auto plain = Run(audio, 0, options);
  WriteFileAtomically(folder_ / "hot", "TWO TWO\t6\n");
  recognize_.bias.hotwords = (folder_ / "hot").string();
  const auto preferred = Run(audio, 0, options);
  EXPECT_NE(preferred, plain);
  for (uint64_t seed = 1; seed <= 4; ++seed) EXPECT_EQ(Run(audio, seed, options), preferred);
  WriteFileAtomically(folder_ / "list", "ONE\n");
  recognize_.bias = {.hotwords = "", .hotword_bonus = 0, .word_list = (folder_ / "list").string()};
  for (const std::string& report : Run(audio, 3, options)) {
    EXPECT_EQ(report.substr(0, report.find_first_of("@[")).find(": 2"), std::string::npos) << report;
  }
}

// Each utterance that is over has the lattice, and the best words of it, that decode gets by rescoring.
TEST_P(Live, RescoresEachUtteranceAsDecodeDoes) {
  LiveOptions options;
  options.cmvn.min_window = 30;
  options.max_utterance_s = 0.9;
  recognize_.search.lattice_beam = 12;
  const decode::LmRescorer rescorer(decode::EstimateNgram({{"ONE", "TWO"}}, {}, {1, "witten-bell", 1}),
                                    decode::EstimateNgram({{"TWO", "TWO", "TWO"}, {"ONE"}}, {}, {3, "witten-bell", 1}),
                                    graph_.words());
  const std::vector<float> audio = Noise(30000);
  Run(audio, 0, options);
  const std::vector<decode::Recognition> plain = finals_;
  rescorer_ = &rescorer;
  const auto whole = Run(audio, 0, options);
  ASSERT_EQ(finals_.size(), plain.size());
  ASSERT_GE(finals_.size(), 3U);
  bool changed = false;
  for (size_t u = 0; u < plain.size(); ++u) {
    const decode::Lattice expected = rescorer.Rescore(plain[u].lattice);
    ASSERT_EQ(finals_[u].lattice.states.size(), expected.states.size());
    for (size_t s = 0; s < expected.states.size(); ++s) {
      ASSERT_EQ(finals_[u].lattice.states[s].arcs.size(), expected.states[s].arcs.size());
      for (size_t a = 0; a < expected.states[s].arcs.size(); ++a) {
        EXPECT_EQ(finals_[u].lattice.states[s].arcs[a].cost.graph, expected.states[s].arcs[a].cost.graph);
        EXPECT_EQ(finals_[u].lattice.states[s].arcs[a].word, expected.states[s].arcs[a].word);
      }
    }
    const decode::LatticePath best = decode::BestPath(expected, {0.1, 0.0});
    EXPECT_EQ(finals_[u].best.words, best.words);
    EXPECT_EQ(finals_[u].best.cost.graph, best.cost.graph);
    changed = changed || best.cost.graph != plain[u].best.cost.graph;
  }
  EXPECT_TRUE(changed) << "the larger model says something else";
  EXPECT_EQ(Run(audio, 2, options), whole);
}

// The profile's factors are powers of two, and so cost no bit where they are folded into the weights.
TEST_P(Live, HearsASpeakerAsTheSpeakersOwnNetworkDoes) {
  LiveOptions options;
  options.cmvn.min_window = 30;
  options.max_utterance_s = 0.9;  // so that utterances begin with frames that the last one left
  const nn::Model& shared = system_.network;
  const auto on_features = testing::PowersOfTwo("", shared.feature_dim, 1);
  const auto hidden = testing::PowersOfTwo("sigmoid1", testing::kHidden, 2);
  const nn::Model own =
      testing::Folded(testing::Folded(shared, on_features, "affine1.weight"), hidden, "affine2.weight");
  const std::vector<float> audio = Noise(30000);
  infer::NnetScorerOptions adaptable;
  adaptable.adaptable = true;
  Use(own, adaptable);
  const auto alone = Run(audio, 0, options);
  Use(shared, adaptable);
  EXPECT_NE(Run(audio, 0, options), alone);
  profile_ = model_->network()->Bind(
      {.parts = {on_features, hidden}, .model = model_->network()->id(), .speaker = "anna", .method = "lhuc"});
  for (uint64_t seed = 0; seed <= 2; ++seed) EXPECT_EQ(Run(audio, seed, options), alone);
}

TEST_P(Live, LearnsTheSpeakersTransformHoweverTheAudioIsCut) {
  const testing::TwoWords system(GetParam(), /*pitch_dim=*/0, /*variance=*/1e4F);  // noise has a path, too
  Use(system.network, {});
  LiveOptions options;
  options.cmvn.min_window = 30;
  options.max_utterance_s = 4.0;  // the first of them is enough for a transform
  const std::vector<float> audio = Noise(9 * testing::kRateHz);
  RememberedSpeaker not_learnt, speaker;
  options.learn_speaker = false;
  memory_ = &not_learnt;
  const auto unknown = Run(audio, 0, options);
  EXPECT_EQ(not_learnt.learnt, pipeline::LearntTransform());
  options.learn_speaker = true;
  memory_ = &speaker;
  const auto whole = Run(audio, 0, options);
  if (!GetParam()) {
    EXPECT_EQ(whole, unknown);
    EXPECT_EQ(speaker.learnt, pipeline::LearntTransform()) << "the model has no transform of speakers";
    return;
  }
  EXPECT_FALSE(speaker.learnt.transform.empty());
  EXPECT_NE(whole, unknown);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    RememberedSpeaker again;
    memory_ = &again;
    EXPECT_EQ(Run(audio, seed, options), whole);
    EXPECT_EQ(again.learnt, speaker.learnt);
  }

  // Frames that are scored together count from where scoring begins.
  infer::NnetScorerOptions skipping;
  skipping.frame_skip = 3;
  Use(system.network, skipping);
  LiveOptions uneven = options;
  uneven.max_utterance_s = 3.7;
  memory_ = nullptr;
  const auto skipped = Run(audio, 0, uneven);
  for (uint64_t seed = 1; seed <= 4; ++seed) EXPECT_EQ(Run(audio, seed, uneven), skipped);
  Use(system.network, {});

  // What taught nothing can be kept, too.
  RememberedSpeaker silent;
  memory_ = &silent;
  Run(Noise(testing::kRateHz / 10), 0, options);
  EXPECT_EQ(silent.learnt, pipeline::LearntTransform());
  SaveMemory(silent, *model_, folder_ / "silent.safetensors");
  EXPECT_EQ(LoadMemory(folder_ / "silent.safetensors", *model_), silent);

  // Who was heard before is known from the beginning, and from a file to the bit.
  ASSERT_TRUE(UsesMemory(*model_));
  SaveMemory(speaker, *model_, folder_ / "anna.safetensors");
  RememberedSpeaker restored = LoadMemory(folder_ / "anna.safetensors", *model_);
  EXPECT_EQ(restored, speaker);
  memory_ = &speaker;
  const auto known = Run(audio, 0, options);
  EXPECT_NE(known, whole);
  memory_ = &restored;
  EXPECT_EQ(Run(audio, 3, options), known);
  EXPECT_EQ(restored, speaker);
}

// Who was heard before has a mean from the first frame on, which nothing has to wait for.
TEST_P(Live, RemembersTheMeanOfASpeaker) {
  if (GetParam()) GTEST_SKIP() << "a transform would be learnt besides";
  LiveOptions options;
  options.cmvn.min_window = 60;
  const std::vector<float> audio = Noise(3 * testing::kRateHz);
  const auto unknown = Run(audio, 0, options);
  RememberedSpeaker speaker;
  memory_ = &speaker;
  EXPECT_EQ(Run(audio, 0, options), unknown);
  EXPECT_GT(speaker.mean.frames, 200);
  SaveMemory(speaker, *model_, folder_ / "anna.safetensors");
  EXPECT_EQ(LoadMemory(folder_ / "anna.safetensors", *model_), speaker);
  const RememberedSpeaker before = speaker;
  const auto known = Run(audio, 0, options);
  EXPECT_NE(known, unknown);
  EXPECT_GT(speaker.mean.frames, before.mean.frames);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    RememberedSpeaker again = before;
    memory_ = &again;
    EXPECT_EQ(Run(audio, seed, options), known);
    EXPECT_EQ(again, speaker);
  }
  // 40 frames, of which a window without memory would see 60 first.
  const auto first_words = [&](RememberedSpeaker memory) {
    int results = 0;
    LiveRecognizer live(
        *model_, graph_, recognize_, {0.1, 0.0}, options, [&](const LiveResult&) { ++results; }, nullptr, &memory);
    live.Accept(std::span(audio).first(testing::kRateHz * 2 / 5));
    return results;
  };
  EXPECT_EQ(first_words({}), 0);
  EXPECT_GT(first_words(before), 0);

  const auto refusal = [&](const RememberedSpeaker& memory) -> std::string {
    SaveMemory(memory, *model_, folder_ / "spoilt.safetensors");
    try {
      LoadMemory(folder_ / "spoilt.safetensors", *model_);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(before), "");
  RememberedSpeaker spoilt = before;
  spoilt.mean.square.clear();
  EXPECT_THAT(refusal(spoilt), HasSubstr("'mean.sum' and 'mean.square' disagree"));
  spoilt.mean.square.assign(2, 1.0);
  EXPECT_THAT(refusal(spoilt), HasSubstr("'mean.square' has 2 numbers"));
  spoilt.mean.square = before.mean.square;
  spoilt.mean.square[1] = -1;
  EXPECT_THAT(refusal(spoilt), HasSubstr("'mean.square' has negative values"));
  spoilt.mean.square[1] = NAN;
  EXPECT_THAT(refusal(spoilt), HasSubstr("'mean.square' has values that are not finite"));
}

// Bad audio costs no utterance that follows.
TEST_P(Live, GoesOnAfterSilenceClippingAndHalfAFrame) {
  LiveOptions options;
  int finals = 0;
  LiveRecognizer live(*model_, graph_, {}, {0.1, 0.0}, options,
                      [&](const LiveResult& result) { finals += result.final ? 1 : 0; });
  live.Accept(std::vector<float>(8000, 0.0F));
  live.Finish();
  std::vector<float> loud = Noise(8000);
  for (float& x : loud) x = std::clamp(100 * x, -32768.0F, 32767.0F);
  live.Accept(loud);
  live.Accept(std::vector<float>(37, 5.0F));  // less than a frame
  live.Finish();
  finals = 0;
  live.Accept(Noise(8000));
  live.Finish();
  EXPECT_GE(finals, 1);
}

// It would wait for the end of all speech.
TEST_P(Live, RefusesFeaturesWithPitch) {
  const testing::TwoWords pitched(GetParam(), /*pitch_dim=*/3);
  Use(pitched.network, {});
  try {
    Run(Noise(8000), 0, {});
    ADD_FAILURE() << "taken";
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("have pitch (pitch-dim = 3)"), HasSubstr("use antiphon decode")));
  }
}

// Without its mean, silence is like the mean of speech, in which any network hears something.
TEST_P(Live, FindsNoWordsInNothingButZeros) {
  LiveOptions options;
  options.cmvn.min_window = 30;
  options.max_utterance_s = 0.9;
  std::vector<float> audio(20000, 0.0F);
  for (uint64_t seed = 0; seed <= 2; ++seed) {
    for (const std::string& report : Run(audio, seed, options)) EXPECT_TRUE(report.ends_with(":")) << report;
  }
  const std::vector<float> sound = Noise(20000);
  audio.insert(audio.end(), sound.begin(), sound.end());
  const auto whole = Run(audio, 0, options);
  EXPECT_TRUE(std::any_of(whole.begin(), whole.end(), [](const std::string& r) { return !r.ends_with(":"); }));
  for (uint64_t seed = 1; seed <= 4; ++seed) EXPECT_EQ(Run(audio, seed, options), whole);
}

TEST_P(Live, StartsAnewAfterTheEnd) {
  LiveOptions options;
  const std::vector<float> audio = Noise(8000);
  std::vector<std::string> texts;
  LiveRecognizer live(*model_, graph_, {}, {0.1, 0.0}, options, [&](const LiveResult& result) {
    if (result.final)
      texts.push_back(fmt::format("{} {}", result.begin_frame, fmt::join(result.recognition.best.words, " ")));
  });
  for (int i = 0; i < 2; ++i) {
    live.Accept(audio);
    live.Finish();
  }
  ASSERT_EQ(texts.size() % 2, 0U);
  EXPECT_TRUE(std::equal(texts.begin(), texts.begin() + std::ssize(texts) / 2, texts.begin() + std::ssize(texts) / 2));
  const std::vector<float> bad(400, NAN);
  EXPECT_THROW(live.Accept(bad), InputError);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutTransform, Live, ::testing::Bool());

}  // namespace
}  // namespace antiphon
