// antiphon::Stream: what `antiphon listen` hears, whatever the pieces, rates and kinds of samples, through the public
// headers; the library is only used to make inputs.
#include "antiphon/stream.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <thread>

#include "antiphon/error.h"
#include "antiphon/log.h"
#include "antiphon/recognizer.h"
#include "api/folded_profile.h"
#include "api/two_words.h"
#include "feat/audio.h"

namespace antiphon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kRateHz;
using Events = std::vector<StreamEvent>;

class Streams : public ::testing::Test {
 protected:
  Recognizer MakeRecognizer(const RecognizerSettings& settings = {.beam = 8, .nbest = 2}) const {
    return {(system_.folder / "net.safetensors").string(), (system_.folder / "graph").string(), settings};
  }

  // On the scale −1 … 1, whole numbers on the 16-bit scale.
  static std::vector<float> Speech(int samples) {
    std::vector<float> speech = testing::Noise(samples);
    for (float& x : speech) x = std::clamp(std::round(x), -32768.0F, 32767.0F) / 32768;
    return speech;
  }

  // Several utterances.
  static StreamSettings Short() { return {.max_utterance_s = 0.9, .cmvn_min_window = 30}; }

  // Seed 0: all at once; odd: pieces of up to thousands of samples; even: of up to 50.
  template <class Sample>
  static Events Hear(Stream stream, const std::vector<Sample>& samples, uint64_t seed) {
    Events events;
    const auto add = [&](Events&& more) { events.insert(events.end(), more.begin(), more.end()); };
    Rng rng(seed);
    for (size_t at = 0; at < samples.size();) {
      const size_t most = seed == 0 ? samples.size() : (seed % 2 == 0 ? 50 : 5000);
      const size_t count = std::min(samples.size() - at, seed == 0 ? most : static_cast<size_t>(rng.Below(most)));
      add(stream.Accept(std::span(samples).subspan(at, count)));
      at += count;
    }
    add(stream.End());
    return events;
  }

  static std::optional<ErrorKind> KindOfErrorIn(const std::function<void()>& call) {
    try {
      call();
    } catch (const std::runtime_error& e) {
      return KindOf(e);
    }
    return {};
  }

  const testing::TwoWords system_{false};
};

// Not at every stream: a server has many.
TEST(StreamsWithoutTransforms, AreWarnedOfOncePerRecognizer) {
  for (const bool adaptive : {false, true}) {
    const testing::TwoWords system(adaptive);
    const Recognizer recognizer((system.folder / "net.safetensors").string(), (system.folder / "graph").string(), {});
    int warnings = 0;
    SetLogCallback([&](LogLevel level, std::string_view message) {
      if (level == LogLevel::kWarning && message.find("fMLLR") != std::string_view::npos) ++warnings;
    });
    recognizer.NewStream(kRateHz);
    EXPECT_EQ(warnings, 0) << "it learns them";
    StreamSettings settings;
    settings.learn_speaker = false;
    for (int i = 0; i < 2; ++i) recognizer.NewStream(kRateHz, settings);
    SetLogCallback({});
    EXPECT_EQ(warnings, adaptive ? 1 : 0);
  }
}

TEST_F(Streams, MayHaveWordsAndHypothesesOfTheirOwn) {
  const Recognizer recognizer = MakeRecognizer({.beam = 8});
  const std::vector<float> speech = Speech(3 * kRateHz);
  StreamSettings settings = Short();
  const Events plain = Hear(recognizer.NewStream(kRateHz, settings), speech, 0);
  settings.nbest = 2;
  settings.hotwords = {{"TWO", 6.0}};
  EXPECT_EQ(
      Hear(recognizer.NewStream(kRateHz, settings), speech, 0),
      Hear(MakeRecognizer({.beam = 8, .nbest = 2, .hotwords = {{"TWO", 6.0}}}).NewStream(kRateHz, Short()), speech, 0));
  settings = Short();
  settings.word_list = {"ONE"};
  const Events ones = Hear(recognizer.NewStream(kRateHz, settings), speech, 0);
  EXPECT_EQ(ones, Hear(MakeRecognizer({.beam = 8, .word_list = {"ONE"}}).NewStream(kRateHz, Short()), speech, 0));
  EXPECT_NE(ones, plain);
  EXPECT_EQ(Hear(recognizer.NewStream(kRateHz, Short()), speech, 0), plain) << "others are left alone";
  settings.hotwords = {{" ", 1.0}};
  EXPECT_EQ(KindOfErrorIn([&] { recognizer.NewStream(kRateHz, settings); }), ErrorKind::kUsage);
  settings.hotwords = {{"ONE", 1000.0}};
  EXPECT_EQ(KindOfErrorIn([&] { recognizer.NewStream(kRateHz, settings); }), ErrorKind::kUsage);
}

TEST_F(Streams, SayTheSameHoweverTheSamplesAreCut) {
  const Recognizer recognizer = MakeRecognizer();
  for (const int rate_hz : {kRateHz, 11025, 48000}) {
    SCOPED_TRACE(rate_hz);
    const std::vector<float> speech = Speech(3 * rate_hz);
    const Events whole = Hear(recognizer.NewStream(rate_hz, Short()), speech, 0);
    int finals = 0;
    for (const StreamEvent& event : whole) {
      EXPECT_LE(event.start_s, event.end_s);
      finals += event.final ? 1 : 0;
      EXPECT_EQ(event.nbest.empty(), !event.final);
      for (const RecognizedWord& word : event.words) {
        if (event.final) {
          EXPECT_GE(word.confidence, 0);
        }
        EXPECT_GE(word.start_s, event.start_s);
        EXPECT_LE(word.end_s, event.end_s + 1e-9);
      }
    }
    EXPECT_GE(finals, 3);
    EXPECT_GT(std::ssize(whole), finals);
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      EXPECT_EQ(Hear(recognizer.NewStream(rate_hz, Short()), speech, seed), whole) << "seed " << seed;
    }
    std::vector<int16_t> integers;
    for (const float x : speech) integers.push_back(static_cast<int16_t>(x * 32768));
    EXPECT_EQ(Hear(recognizer.NewStream(rate_hz, Short()), integers, 1), whole);
  }
}

TEST_F(Streams, OfOneRecognizerDoNotDisturbEachOther) {
  const Recognizer recognizer = MakeRecognizer();
  const std::vector<float> speech = Speech(2 * kRateHz);
  const Events alone = Hear(recognizer.NewStream(kRateHz, Short()), speech, 0);
  std::vector<Events> heard(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < heard.size(); ++t) {
    threads.emplace_back([&, t] { heard[t] = Hear(recognizer.NewStream(kRateHz, Short()), speech, t); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Events& events : heard) EXPECT_EQ(events, alone);
}

TEST_F(Streams, OutliveTheirRecognizer) {
  const std::vector<float> speech = Speech(2 * kRateHz);
  std::optional<Recognizer> recognizer = MakeRecognizer();
  const Events expected = Hear(recognizer->NewStream(kRateHz, Short()), speech, 0);
  Stream stream = recognizer->NewStream(kRateHz, Short());
  recognizer.reset();
  EXPECT_EQ(Hear(std::move(stream), speech, 1), expected);
}

// The words of a partial result say its text, one after the other, within what was heard until then.
TEST_F(Streams, SayWhenTheWordsSoFarWereSaid) {
  const std::vector<float> speech = Speech(4 * kRateHz);
  for (const std::vector<std::string>& word_list : {std::vector<std::string>{}, {"ONE TWO", "[unk]"}, {"ONE TWO"}}) {
    StreamSettings settings = Short();
    settings.word_list = word_list;
    Stream stream = MakeRecognizer().NewStream(kRateHz, settings);
    int partials = 0, words = 0;
    const auto check = [&](const Events& events, double heard_s) {
      for (const StreamEvent& event : events) {
        std::string text;
        double start_s = event.start_s;
        for (const RecognizedWord& word : event.words) {
          text += (text.empty() ? "" : " ") + word.word;
          EXPECT_GE(word.start_s, start_s);
          EXPECT_GE(word.end_s, word.start_s);
          EXPECT_LE(word.end_s, heard_s);
          EXPECT_EQ(word.confidence < 0, !event.final);
          start_s = word.start_s;
        }
        EXPECT_EQ(text, event.text);
        partials += event.final ? 0 : 1;
        words += event.final ? 0 : static_cast<int>(std::ssize(event.words));
      }
    };
    constexpr size_t kPiece = 400;
    for (size_t at = 0; at < speech.size(); at += kPiece) {
      check(stream.Accept(std::span(speech).subspan(at, kPiece)), static_cast<double>(at + kPiece) / kRateHz);
    }
    check(stream.End(), static_cast<double>(speech.size()) / kRateHz);
    EXPECT_GT(partials, 10);
    EXPECT_GT(words, 5);
  }
}

TEST_F(Streams, GivePartialResultsUnlessTheyAreNotWanted) {
  const Recognizer recognizer = MakeRecognizer();
  const std::vector<float> speech = Speech(3 * kRateHz);
  const Events all = Hear(recognizer.NewStream(kRateHz, Short()), speech, 0);
  StreamSettings settings = Short();
  settings.partial = false;
  Events finals;
  std::copy_if(all.begin(), all.end(), std::back_inserter(finals), [](const StreamEvent& e) { return e.final; });
  EXPECT_EQ(Hear(recognizer.NewStream(kRateHz, settings), speech, 1), finals);
}

TEST_F(Streams, KnowWordsThatAreWantedOrAllowed) {
  const std::vector<float> speech = Speech(3 * kRateHz);
  const Events plain = Hear(MakeRecognizer().NewStream(kRateHz, Short()), speech, 0);
  const Recognizer preferring = MakeRecognizer({.beam = 8, .nbest = 2, .hotwords = {{"TWO TWO", 6}}});
  EXPECT_NE(Hear(preferring.NewStream(kRateHz, Short()), speech, 0), plain);
  const Recognizer restricted = MakeRecognizer({.beam = 8, .word_list = {"ONE"}});
  for (const StreamEvent& event : Hear(restricted.NewStream(kRateHz, Short()), speech, 1)) {
    EXPECT_EQ(event.text.find("TWO"), std::string::npos) << event.text;
  }
}

// The profile's factors are powers of two: folded into the weights they cost no bit.
TEST_F(Streams, HearASpeakerAsTheSpeakersOwnNetworkDoes) {
  const std::vector<float> speech = Speech(2 * kRateHz);
  const auto hidden = testing::PowersOfTwo("sigmoid1", testing::kHidden, 2);
  nn::SpeakerProfile profile;
  profile.parts = {hidden};
  profile.model = nn::ModelId(system_.network.network);
  profile.speaker = "anna";
  const std::string file = (system_.folder / "anna.safetensors").string();
  profile.Save(file);
  StreamSettings settings = Short();
  const Recognizer shared = MakeRecognizer();
  settings.profile = shared.LoadProfile(file);
  const Events heard = Hear(shared.NewStream(kRateHz, settings), speech, 1);
  EXPECT_NE(heard, Hear(shared.NewStream(kRateHz, Short()), speech, 0));
  EXPECT_EQ(KindOfErrorIn([&] { MakeRecognizer().NewStream(kRateHz, settings); }), ErrorKind::kUsage);
  testing::Folded(system_.network, hidden, "affine2.weight").Save(system_.folder / "net.safetensors");
  EXPECT_EQ(heard, Hear(MakeRecognizer().NewStream(kRateHz, Short()), speech, 0));
}

TEST_F(Streams, RememberWhoSpoke) {
  nn::Model network = nn::Model::Load(system_.folder / "net.safetensors");
  network.feature_config += "mean-window = 100\nmean-prior = [1, 2, 3, 4, 5]\n";
  network.Save(system_.folder / "net.safetensors");
  const Recognizer recognizer = MakeRecognizer();
  EXPECT_TRUE(recognizer.UsesMemory());
  const std::vector<float> speech = Speech(2 * kRateHz);
  StreamSettings settings = Short();
  settings.memory = SpeakerMemory("anna");
  Stream first = recognizer.NewStream(kRateHz, settings);
  const Events nobody = first.Accept(speech);
  first.End();
  EXPECT_EQ(first.memory().speaker(), "anna");
  settings.memory = first.memory();
  Stream second = recognizer.NewStream(kRateHz, settings);
  const Events known = second.Accept(speech);
  EXPECT_NE(known, nobody);
  const std::string file = (system_.folder / "anna.safetensors").string();
  recognizer.SaveMemory(first.memory(), file);
  settings.memory = recognizer.LoadMemory(file);
  EXPECT_EQ(recognizer.NewStream(kRateHz, settings).Accept(speech), known);
  // As RecognizeFile would go on.
  SpeakerMemory memory = first.memory();
  EXPECT_NE(recognizer.Recognize(speech, kRateHz, {.memory = &memory}), recognizer.Recognize(speech, kRateHz));
}

TEST_F(Streams, RefuseWhatCannotBe) {
  const Recognizer recognizer = MakeRecognizer();
  const std::vector<float> speech = Speech(2 * kRateHz);
  for (const int rate_hz : {0, -8000, 999, 400000}) {
    EXPECT_EQ(KindOfErrorIn([&] { recognizer.NewStream(rate_hz); }), ErrorKind::kUsage) << rate_hz;
    EXPECT_EQ(KindOfErrorIn([&] { recognizer.Recognize(speech, rate_hz); }), ErrorKind::kUsage) << rate_hz;
  }
  const std::vector<StreamSettings> impossible = {{.step_frames = 0},
                                                  {.endpoint_silence_s = -1},
                                                  {.max_utterance_s = std::numeric_limits<double>::quiet_NaN()},
                                                  {.cmvn_window = 0}};
  for (const StreamSettings& settings : impossible) {
    EXPECT_EQ(KindOfErrorIn([&] { recognizer.NewStream(kRateHz, settings); }), ErrorKind::kUsage);
  }
  // Samples that are no numbers cost nothing of what was said.
  Stream stream = recognizer.NewStream(kRateHz, Short());
  Events heard = stream.Accept(std::span(speech).first(5000));
  std::vector<float> bad(100, 0.1F);
  for (const float x : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30F}) {
    bad[7] = x;
    EXPECT_EQ(KindOfErrorIn([&] { stream.Accept(bad); }), ErrorKind::kInput) << x;
  }
  const auto add = [&](const Events& more) { heard.insert(heard.end(), more.begin(), more.end()); };
  add(stream.Accept(std::span(speech).subspan(5000)));
  EXPECT_FALSE(stream.ended());
  add(stream.End());
  EXPECT_TRUE(stream.ended());
  EXPECT_EQ(heard, Hear(recognizer.NewStream(kRateHz, Short()), speech, 0));
  EXPECT_EQ(KindOfErrorIn([&] { stream.Accept(speech); }), ErrorKind::kUsage);
  EXPECT_EQ(KindOfErrorIn([&] { stream.End(); }), ErrorKind::kUsage);
  // A stream that was moved away is none.
  Stream other = std::move(stream);
  EXPECT_TRUE(other.AudioRemarks().empty());
  EXPECT_EQ(KindOfErrorIn([&] { stream.Accept(speech); }), ErrorKind::kUsage);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(KindOfErrorIn([&] { stream.End(); }), ErrorKind::kUsage);
}

TEST_F(Streams, NeedANetwork) {
  const Recognizer recognizer((system_.folder / "gmm.safetensors").string(), (system_.folder / "graph").string(),
                              {.adapt_passes = 0});
  EXPECT_EQ(KindOfErrorIn([&] { recognizer.NewStream(kRateHz); }), ErrorKind::kUsage);
}

TEST_F(Streams, NoRecogniserTakesTheMemoryOfAnother) {
  const std::string gaussians = (system_.folder / "gmm.safetensors").string();
  const std::string graph = (system_.folder / "graph").string();
  const RecognizerSettings plain = {.beam = 8, .adapt_passes = 0};
  const Recognizer first(gaussians, graph, plain), second(gaussians, graph, plain);
  const std::vector<float> speech = Speech(kRateHz);
  SpeakerMemory memory;
  first.Recognize(speech, kRateHz, {.memory = &memory});
  EXPECT_EQ(KindOfErrorIn([&] { second.Recognize(speech, kRateHz, {.memory = &memory}); }), ErrorKind::kUsage);
  EXPECT_EQ(KindOfErrorIn([&] { MakeRecognizer().Recognize(speech, kRateHz, {.memory = &memory}); }),
            ErrorKind::kUsage);
  EXPECT_EQ(KindOfErrorIn([&] { first.Recognize(speech, kRateHz, {.memory = &memory}); }), std::nullopt);
}

TEST_F(Streams, StopWhenTheyAreAskedTo) {
  const Recognizer recognizer = MakeRecognizer();
  StreamSettings settings = Short();
  Stream going = recognizer.NewStream(kRateHz, settings);
  settings.cancel = CancelToken();
  Stream other = recognizer.NewStream(kRateHz, settings);
  settings.cancel.Cancel();
  const std::vector<float> speech = Speech(kRateHz);
  EXPECT_EQ(KindOfErrorIn([&] { other.Accept(speech); }), ErrorKind::kCancelled);
  EXPECT_EQ(KindOfErrorIn([&] { other.Accept(speech); }), ErrorKind::kUsage) << "it is over";
  EXPECT_FALSE(going.Accept(speech).empty()) << "another token";
}

TEST_F(Streams, TellWhatIsWrongWithTheSound) {
  Stream stream = MakeRecognizer().NewStream(kRateHz);
  stream.Accept(std::vector<float>(kRateHz, 0.0F));
  stream.End();
  ASSERT_EQ(stream.AudioRemarks().size(), 1U);
  EXPECT_THAT(stream.AudioRemarks()[0], HasSubstr("muted"));
}

// As it comes, before it is resampled: that rounds off what is clipped, and hides how narrow the band was.
TEST_F(Streams, JudgeTheSoundAsItComes) {
  Stream stream = MakeRecognizer().NewStream(kRateHz / 2);
  std::vector<float> clipped = Speech(kRateHz);
  for (float& sample : clipped) sample = std::clamp(100 * sample, -1.0F, 1.0F);
  stream.Accept(clipped);
  stream.End();
  EXPECT_THAT(stream.AudioRemarks(),
              ElementsAre(HasSubstr(fmt::format("nothing is heard above {} Hz", kRateHz / 4)), HasSubstr("clipped")));
}

TEST_F(Streams, AreJson) {
  StreamEvent event;
  event.final = true;
  event.start_s = 1.004;
  event.end_s = 2.0;
  event.text = "ONE \"TWO\"";
  event.words = {{"ONE", 1.1, 1.25, 0.5}};
  event.nbest = {{"ONE", 3.0, 1.0, 20.0}};
  EXPECT_EQ(ToJson(event),
            R"({"final":true,"start":1.0,"end":2.0,"text":"ONE \"TWO\"","words":[{"word":"ONE","start":1.1,"end":1.25,)"
            R"("confidence":0.5}],"nbest":[{"text":"ONE","cost":3.0,"graph_cost":1.0,"acoustic_cost":20.0}]})");
  StreamEvent so_far;
  so_far.text = "ONE";
  so_far.words = {{"ONE", 1.1, 1.25, -1.0}};
  EXPECT_EQ(ToJson(so_far),
            R"({"final":false,"start":0.0,"end":0.0,"text":"ONE","words":[{"word":"ONE","start":1.1,"end":1.25}]})");
}

}  // namespace
}  // namespace antiphon
