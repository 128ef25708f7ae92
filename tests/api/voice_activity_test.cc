// Speech alone is recognised: by recordings and streams, as by antiphon decode; and nothing changes without a model.
#include "pipeline/voice_activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "antiphon/log.h"
#include "antiphon/recognizer.h"
#include "api/as_decode.h"
#include "api/recognizer_impl.h"
#include "api/recognizer_options.h"
#include "base/error.h"
#include "base/finally.h"
#include "base/random.h"
#include "loudness_vad.h"
#include "pipeline/bundle.h"
#include "pipeline/chosen_weights.h"

namespace antiphon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class VoiceActivityTest : public testing::AsDecode {
 protected:
  VoiceActivityTest() { testing::LoudnessModel().Save(vad_); }

  // Loud noise with faint noise around; lengths in seconds.
  std::string Turns(const std::vector<double>& lengths) {
    Rng rng(3);
    std::vector<float> samples;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const int count = static_cast<int>(lengths[i] * testing::kRateHz);
      if (i % 2 == 1) {
        const std::vector<float> loud = testing::Noise(count);
        samples.insert(samples.end(), loud.begin(), loud.end());
      } else {
        for (int s = 0; s < count; ++s) samples.push_back(static_cast<float>(8 * rng.Normal()));
      }
    }
    for (float& x : samples) x = std::clamp(std::round(x), -32768.0F, 32767.0F);
    feat::WriteWav(Path("turns.wav"), {samples, testing::kRateHz});
    samples_ = samples;
    for (float& x : samples_) x /= 32768;
    return Path("turns.wav");
  }
  RecognizerSettings Settings() const {
    RecognizerSettings settings = kSettings;
    settings.vad = vad_;
    return settings;
  }
  std::vector<StreamEvent> Listen(const Recognizer& recognizer, uint64_t seed) const {
    Stream stream = recognizer.NewStream(testing::kRateHz, {.cmvn_min_window = 30});
    std::vector<StreamEvent> events;
    const auto add = [&](std::vector<StreamEvent>&& some) { events.insert(events.end(), some.begin(), some.end()); };
    Rng rng(seed);
    for (size_t at = 0; at < samples_.size();) {
      const size_t most = seed == 0 ? samples_.size() : 1 + rng.Below(seed % 2 == 0 ? 100 : 9000);
      const size_t count = std::min(samples_.size() - at, most);
      add(stream.Accept(std::span(samples_).subspan(at, count)));
      at += count;
    }
    add(stream.End());
    return events;
  }

  const std::string vad_ = Path("vad.safetensors");
  std::vector<float> samples_;
};

// Loud from 2 to 4 s and from 7 to 8 s; 0.3 s around each are heard, and windows reach a little further.
const std::vector<double> kTwoTurns = {2, 2, 3, 1, 2};

bool InTurns(double start_s, double end_s) {
  return (start_s >= 1.65 && end_s <= 4.35) || (start_s >= 6.65 && end_s <= 8.35);
}

TEST_F(VoiceActivityTest, RecordingsAreRecognisedAsByDecode) {
  const auto vad = [&](pipeline::DecodeRequest& request) { request.vad.model = vad_; };
  for (const bool network : {true, false}) {
    const std::string model = Model(network);
    const std::string speech = Turns(kTwoTurns);
    const Recognition said = Recognizer(model, Path("graph"), Settings()).RecognizeFile(speech);
    ASSERT_GT(said.words.size(), 1U);
    for (const RecognizedWord& word : said.words) EXPECT_TRUE(InTurns(word.start_s, word.end_s)) << word.start_s;
    EXPECT_GT(said.words.back().start_s, 6.0) << "both turns have words";
    EXPECT_LT(said.words.front().start_s, 4.5);
    ExpectSame(said, Decode(model, speech, vad));
  }
}

TEST_F(VoiceActivityTest, LongRecordingsToo) {
  const std::string model = Model(true);
  const std::string speech = Turns({3, 35, 60, 8, 20, 1, 4});  // longer than a piece, and than what is kept
  const auto vad = [&](pipeline::DecodeRequest& request) { request.vad.model = vad_; };
  const Recognition said = Recognizer(model, Path("graph"), Settings()).RecognizeFile(speech);
  ExpectSame(said, Decode(model, speech, vad));
  ASSERT_FALSE(said.words.empty());
  EXPECT_GT(said.words.back().start_s, 126.0);
}

TEST_F(VoiceActivityTest, StreamsHearTurnsHoweverTheyAreCut) {
  Turns(kTwoTurns);
  const Recognizer recognizer(Model(true), Path("graph"), Settings());
  const std::vector<StreamEvent> whole = Listen(recognizer, 0);
  std::vector<StreamEvent> finals;
  for (const StreamEvent& event : whole) {
    EXPECT_TRUE(InTurns(event.start_s, event.end_s)) << event.start_s << " " << event.end_s;
    if (event.final) finals.push_back(event);
  }
  ASSERT_GE(finals.size(), 2U);
  EXPECT_NEAR(finals.front().start_s, 1.7, 0.04);
  EXPECT_NEAR(finals.back().end_s, 8.3, 0.04);
  EXPECT_GT(whole.size(), finals.size()) << "partial results";
  for (const uint64_t seed : {1, 2, 3}) EXPECT_EQ(Listen(recognizer, seed), whole);
}

TEST_F(VoiceActivityTest, WhereNobodySpeaksThereAreNoWords) {
  const std::string model = Model(true);
  const std::string silence = Turns({6});
  const Recognizer recognizer(model, Path("graph"), Settings());
  const Recognition said = recognizer.RecognizeFile(silence);
  EXPECT_EQ(said.text, "");
  EXPECT_EQ(said.remark, pipeline::kNoSpeechRemark);
  EXPECT_TRUE(Listen(recognizer, 1).empty());
  const auto vad = [&](pipeline::DecodeRequest& request) { request.vad.model = vad_; };
  EXPECT_EQ(Decode(model, silence, vad).at("remark"), pipeline::kNoSpeechRemark);
  EXPECT_NE(Recognizer(model, Path("graph"), kSettings).RecognizeFile(silence).remark, pipeline::kNoSpeechRemark);
}

TEST_F(VoiceActivityTest, TurnsOfLittleContrastAreLeftOut) {
  constexpr double kNoCuts_s = 30, kMost = 1000;  // nats; no score varies as much
  const std::string model = Model(true), speech = Turns({1, 6, 2, 4, 1});
  pipeline::WriteChosenWeights(Path("weights.toml"), {.lm_weight = 10.0, .contrast = kMost}, "of a test");
  const auto recognizer = [&](double least_contrast) {
    RecognizerOptions options = OptionsOf(kSettings);
    options.weights = Path("weights.toml");
    options.vad.model = vad_;
    options.vad.least_contrast = least_contrast;
    options.pieces.cut_silence_s = kNoCuts_s;
    return RecognizerAccess::Make(model, Path("graph"), options);
  };
  const auto decode = [&](double least_contrast) {
    return Decode(model, speech, [&](pipeline::DecodeRequest& request) {
      request.weights = Path("weights.toml");
      request.vad.model = vad_;
      request.vad.least_contrast = least_contrast;
      request.pieces.cut_silence_s = kNoCuts_s;
    });
  };
  const Recognition all = recognizer(0).RecognizeFile(speech);
  ExpectSame(all, decode(0));
  const auto in_first = [](const RecognizedWord& word) { return word.start_s < 8; };
  const auto of_first = static_cast<size_t>(std::ranges::count_if(all.words, in_first));
  ASSERT_GT(of_first, 0U);
  ASSERT_LT(of_first, all.words.size());
  // The least that leaves something out.
  double kept = 0, not_kept = 1;
  for (int halving = 0; halving < 20; ++halving) {
    const double middle = (kept + not_kept) / 2;
    (recognizer(middle).RecognizeFile(speech).words.size() == all.words.size() ? kept : not_kept) = middle;
  }
  const Recognition richer = recognizer(not_kept).RecognizeFile(speech);
  ASSERT_FALSE(richer.words.empty());
  const bool first_is_richer = in_first(richer.words.front());
  EXPECT_EQ(richer.words.size(), first_is_richer ? of_first : all.words.size() - of_first);
  EXPECT_THAT(richer.remark, HasSubstr("utterances that are hardly speech: 1, "));
  ExpectSame(richer, decode(not_kept));
  EXPECT_EQ(recognizer(1).RecognizeFile(speech).remark, pipeline::kHardlySpeechRemark);
  ExpectSame(recognizer(1).RecognizeFile(speech), decode(1));

  const auto words_of_stream = [&](double least_contrast) {
    StreamSettings settings{.cmvn_min_window = 30};
    settings.endpoint_silence_s = kNoCuts_s;
    Stream stream = recognizer(least_contrast).NewStream(testing::kRateHz, settings);
    std::vector<StreamEvent> events = stream.Accept(samples_);
    for (StreamEvent& event : stream.End()) events.push_back(std::move(event));
    size_t words = 0;
    for (const StreamEvent& event : events) words += event.final ? event.words.size() : 0;
    return words;
  };
  EXPECT_GT(words_of_stream(0), 0U);
  EXPECT_EQ(words_of_stream(kept / 2), words_of_stream(0));
  EXPECT_EQ(words_of_stream(1), 0U);
}

TEST(VoiceActivity, UtterancesWithoutWordsOrContrastAndShortOnesAreNotJudged) {
  const auto hardly_speech = [](const decode::Recognition& said, double seconds, double least) {
    return pipeline::IsHardlySpeech(said, seconds, /*certainty=*/1.0, least);
  };
  decode::Recognition said;
  said.contrast = 0.5;
  EXPECT_FALSE(hardly_speech(said, 3.0, 1.0)) << "it has no words";
  said.best.words = {1};
  EXPECT_TRUE(hardly_speech(said, 3.0, 1.0));
  EXPECT_FALSE(hardly_speech(said, 3.0, 0.5));
  EXPECT_FALSE(hardly_speech(said, 0.9, 1.0)) << "a single word";
  said.contrast = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(hardly_speech(said, 3.0, 1.0));
}

TEST(VoiceActivity, TheSurerItIsTheLessContrastIsEnough) {
  decode::Recognition said;
  said.contrast = 0.5;
  said.best.words = {1};
  EXPECT_TRUE(pipeline::IsHardlySpeech(said, 3.0, 0.8, 0.33));
  EXPECT_FALSE(pipeline::IsHardlySpeech(said, 3.0, 0.8, 0.31));
  EXPECT_FALSE(pipeline::IsHardlySpeech(said, 3.0, 0.9, 0.33));
  EXPECT_TRUE(pipeline::IsHardlySpeech(said, 3.0, 0.0, 0.33)) << "nothing in it counts as speech";
  EXPECT_FALSE(pipeline::IsHardlySpeech(said, 3.0, 0.0, 0.0)) << "all are to be kept";
}

TEST_F(VoiceActivityTest, AnyContrastIsEnoughUnlessTheWeightsSayWhatIsUsual) {
  const std::string model = Model(true), speech = Turns(kTwoTurns);
  std::string log;
  SetLogCallback([&](LogLevel, std::string_view message) { log += message; });
  const Finally no_callback([] { SetLogCallback({}); });
  RecognizerOptions options = OptionsOf(Settings());
  RecognizerAccess::Make(model, Path("graph"), options);
  EXPECT_THAT(log, Not(HasSubstr("--vad-contrast"))) << "the default value";
  options.vad.least_contrast = 1.0;
  EXPECT_FALSE(RecognizerAccess::Make(model, Path("graph"), options).RecognizeFile(speech).words.empty());
  EXPECT_THAT(log, HasSubstr("--vad-contrast 1 leaves nothing out"));
}

// Other weights than the bundle's change what is chosen, not what its speech is like.
TEST_F(VoiceActivityTest, ABundleKnowsItsContrastWhateverTheWeights) {
  const std::string speech = Turns(kTwoTurns);
  pipeline::WriteChosenWeights(Path("weights.toml"), {.lm_weight = 10.0, .contrast = 1000.0}, "of a test");
  pipeline::BundleRequest request;
  request.model = Model(true);
  request.graph = Path("graph");
  request.vad = vad_;
  request.weights = Path("weights.toml");
  request.out = Path("clear.antiphon");
  pipeline::WriteBundle(request);
  RecognizerSettings settings = kSettings;
  settings.lm_weight = 12.0;
  settings.options = "cut-silence = 30.0";  // short pieces keep their words
  const Recognition said = Recognizer(request.out, "", settings).RecognizeFile(speech);
  EXPECT_TRUE(said.words.empty());
  EXPECT_THAT(said.remark, HasSubstr("hardly speech"));
  settings.options += "\nvad-contrast = 0.0";
  EXPECT_FALSE(Recognizer(request.out, "", settings).RecognizeFile(speech).words.empty());
}

TEST_F(VoiceActivityTest, ABundleBringsItAndItCanBeLeftOut) {
  const std::string model = Model(true), speech = Turns(kTwoTurns);
  pipeline::BundleRequest request;
  request.model = model;
  request.graph = Path("graph");
  request.out = Path("without.antiphon");
  pipeline::WriteBundle(request);
  request.vad = vad_;
  request.out = Path("with.antiphon");
  pipeline::WriteBundle(request);
  const auto heard = [&](const std::string& bundle, const std::string& vad) {
    RecognizerSettings settings = kSettings;
    settings.vad = vad;
    return ToJson(Recognizer(Path(bundle), "", settings).RecognizeFile(speech));
  };
  const std::string everything = heard("without.antiphon", "");
  EXPECT_EQ(heard("with.antiphon", "none"), everything);
  EXPECT_EQ(heard("with.antiphon", ""), heard("without.antiphon", vad_));
  EXPECT_EQ(heard("without.antiphon", Path("with.antiphon")), heard("with.antiphon", ""));
  EXPECT_NE(heard("with.antiphon", ""), everything);
  try {
    heard("with.antiphon", Path("without.antiphon"));
    FAIL() << "a bundle without one";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("antiphon bundle --vad"));
  }
}

TEST_F(VoiceActivityTest, FeaturesWithoutAudioCannotBeHeard) {
  const std::string model = Model(true), speech = Turns(kTwoTurns);
  Decode(model, speech);
  std::filesystem::rename(Path("out/features"), Path("features"));
  try {
    Decode(model, Path("features"), [&](pipeline::DecodeRequest& request) { request.vad.model = vad_; });
    FAIL() << "no audio";
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), HasSubstr("--vad none"));
  }
}

TEST(VoiceActivity, RowsOfTurnsLieBetweenFramesOfTheSearch) {
  const std::vector<pipeline::SpeechTurn> turns = {{0.0, 0.1}, {0.22, 0.52}, {0.99, 9.0}};
  const auto spans = pipeline::RowsOf(turns, 101, 0.01, 3);
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[0].begin, 0);
  EXPECT_EQ(spans[0].end, 9);
  EXPECT_EQ(spans[1].begin, 21);
  EXPECT_EQ(spans[1].end, 51);
  EXPECT_EQ(spans[2].begin, 99);
  EXPECT_EQ(spans[2].end, 101);
  EXPECT_TRUE(pipeline::RowsOf({{2.0, 3.0}}, 100, 0.01, 1).empty());
}

}  // namespace
}  // namespace antiphon
