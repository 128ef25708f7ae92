// antiphon::Recognizer and a decoding (pipeline/decode.h) of the same recording say the same, bit for bit.
#include <gtest/gtest.h>

#include "antiphon/recognizer.h"
#include "api/as_decode.h"
#include "base/error.h"
#include "base/file.h"
#include "decode/lm/ngram_estimate.h"

namespace antiphon {
namespace {

using testing::AsDecode;

// 16-bit PCM, samples of both channels in turn.
void WriteStereo(const std::string& path, const std::vector<int16_t>& samples) {
  const auto bytes = static_cast<uint32_t>(2 * samples.size());
  std::string wav = "RIFF";
  const auto number = [&](uint32_t value, int size) {
    for (int i = 0; i < size; ++i) wav += static_cast<char>(value >> (8 * i) & 0xFF);
  };
  number(36 + bytes, 4);
  wav += "WAVEfmt ";
  number(16, 4);
  number(1, 2);
  number(2, 2);
  number(testing::kRateHz, 4);
  number(4 * testing::kRateHz, 4);
  number(4, 2);
  number(16, 2);
  wav += "data";
  number(bytes, 4);
  for (const int16_t sample : samples) number(static_cast<uint16_t>(sample), 2);
  WriteFileAtomically(path, wav);
}

// Whole; whole, with speech enough to adapt to; in pieces; in pieces whose features are stored in parts.
TEST_F(AsDecode, SaysTheSameOfAnyLength) {
  struct Case {
    bool network;
    int seconds, adapt_passes;
  };
  for (const Case& c : {Case{false, 3, 2}, Case{false, 15, 2}, Case{true, 3, 2}, Case{true, 15, 2}, Case{true, 32, 1},
                        Case{true, 122, 1}}) {
    SCOPED_TRACE(fmt::format("{}, {} s", c.network ? "network" : "Gaussians", c.seconds));
    const std::string model = Model(c.network), speech = Speech(c.seconds);
    RecognizerSettings settings = kSettings;
    settings.adapt_passes = c.adapt_passes;
    const auto decoded = Decode(model, speech, [&](auto& request) { request.adaptation.passes = c.adapt_passes; });
    EXPECT_GT(decoded.at("words").size(), 0U);
    EXPECT_EQ(Adapted(), c.seconds > 3);
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
  RecognizerSettings settings = kSettings;
  settings.graph_arpa = Path("small.arpa");
  settings.rescore_arpa = Path("large.arpa");
  WriteFileAtomically(settings.graph_arpa, decode::EstimateNgram({{"ONE", "TWO"}}, {}, {1, "witten-bell", 1}).ToArpa());
  WriteFileAtomically(settings.rescore_arpa,
                      decode::EstimateNgram({{"TWO", "TWO", "TWO"}, {"ONE"}}, {}, {3, "witten-bell", 1}).ToArpa());
  const auto decoded = Decode(model, speech, [&](auto& request) {
    request.graph_arpa = settings.graph_arpa;
    request.rescore_arpa = settings.rescore_arpa;
  });
  ExpectSame(Recognizer(model, Path("graph"), settings).RecognizeFile(speech), decoded);
  EXPECT_NE(decoded.at("words"), plain.at("words"));
  settings.graph_arpa = "";
  EXPECT_THROW(Recognizer(model, Path("graph"), settings), UsageError);
}

TEST_F(AsDecode, GivesTheNBest) {
  const std::string model = Model(true), speech = Speech(6);
  RecognizerSettings settings = kSettings;
  settings.beam = 10;  // so that there are several
  settings.nbest = 4;
  settings.lm_weight = 5;
  settings.word_penalty = 0.25;
  const auto decoded = Decode(model, speech, [&](auto& request) {
    request.recognize.search.beam = settings.beam;
    request.recognize.nbest = settings.nbest;
    request.lm_weight = settings.lm_weight;
    request.word_penalty = settings.word_penalty;
  });
  const Recognition recognised = Recognizer(model, Path("graph"), settings).RecognizeFile(speech);
  ExpectSame(recognised, decoded);
  ASSERT_GT(recognised.nbest.size(), 1U);
  std::string written;
  for (size_t rank = 0; rank < recognised.nbest.size(); ++rank) {
    const Hypothesis& h = recognised.nbest[rank];
    written += fmt::format("noise-{} {:.3f} {:.3f} {:.3f}{}{}\n", rank + 1, h.cost, h.graph_cost, h.acoustic_cost,
                           h.text.empty() ? "" : " ", h.text);
  }
  EXPECT_EQ(written, ReadFile(Path("out/nbest.txt")));
  EXPECT_EQ(recognised.nbest[0].text, recognised.text);
}

TEST_F(AsDecode, ACallMayAskForItsOwnNBest) {
  const std::string model = Model(true), speech = Speech(6);
  const Recognizer recognizer(model, Path("graph"), {.beam = 10, .nbest = 2});
  const Recognition usual = recognizer.RecognizeFile(speech);
  const Recognition more = recognizer.RecognizeFile(speech, {.nbest = 4});
  ASSERT_EQ(usual.nbest.size(), 2U);
  ASSERT_EQ(more.nbest.size(), 4U);
  EXPECT_TRUE(std::equal(usual.nbest.begin(), usual.nbest.end(), more.nbest.begin()));
  EXPECT_TRUE(recognizer.RecognizeFile(speech, {.nbest = 0}).nbest.empty());
  EXPECT_EQ(recognizer.RecognizeFile(speech), usual);
  EXPECT_THROW(recognizer.RecognizeFile(speech, {.nbest = -2}), UsageError);
  EXPECT_THROW(recognizer.RecognizeFile(speech, {.nbest = 1001}), UsageError);
}

TEST_F(AsDecode, PrefersAndAllowsWordsGivenAsValues) {
  const std::string model = Model(true), speech = Speech(6);
  WriteFileAtomically(Path("hot"), "TWO TWO\t6\nONE\t-1.5\n");
  WriteFileAtomically(Path("list"), "TWO\n");
  const Recognition plain = Recognizer(model, Path("graph"), kSettings).RecognizeFile(speech);
  RecognizerSettings settings = kSettings;
  settings.hotwords = {{"TWO TWO", 6}, {"ONE", -1.5}};
  const Recognition preferred = Recognizer(model, Path("graph"), settings).RecognizeFile(speech);
  ExpectSame(preferred, Decode(model, speech, [&](auto& request) { request.recognize.bias.hotwords = Path("hot"); }));
  EXPECT_NE(preferred.words, plain.words);
  settings.hotwords.clear();
  settings.word_list = {"TWO"};
  const Recognition restricted = Recognizer(model, Path("graph"), settings).RecognizeFile(speech);
  ExpectSame(restricted,
             Decode(model, speech, [&](auto& request) { request.recognize.bias.word_list = Path("list"); }));
  ASSERT_FALSE(restricted.words.empty());
  for (const RecognizedWord& word : restricted.words) EXPECT_EQ(word.word, "TWO");
  settings.word_list = {"THREE"};
  EXPECT_THROW(Recognizer(model, Path("graph"), settings), InputError);
}

TEST_F(AsDecode, ComputesInEightBits) {
  const std::string model = Model(true), speech = Speech(6);
  RecognizerSettings settings = kSettings;
  settings.precision = "int8";
  const auto decoded = Decode(model, speech, [](auto& request) { request.nnet.precision = "int8"; });
  ExpectSame(Recognizer(model, Path("graph"), settings).RecognizeFile(speech), decoded);
  settings.precision = "fp32";
  settings.options = "nnet.precision = 'int8'\nnnet.lazy = true";
  ExpectSame(Recognizer(model, Path("graph"), settings).RecognizeFile(speech), Decode(model, speech, [](auto& request) {
               request.nnet.precision = "int8";
               request.nnet.lazy = true;
             }));
}

TEST_F(AsDecode, HearsOneChannelOfSeveral) {
  const std::string model = Model(true), left = Speech(6);
  const feat::Waveform wave = feat::ReadAudio(left);
  // Its left channel twice as loud as the right one, which is said backwards.
  std::vector<int16_t> both;
  for (size_t i = 0; i < wave.samples.size(); ++i) {
    both.push_back(static_cast<int16_t>(wave.samples[i] / 2));
    both.push_back(static_cast<int16_t>(wave.samples[wave.samples.size() - 1 - i] / 4));
  }
  WriteStereo(Path("both.wav"), both);
  const Recognizer recognizer(model, Path("graph"), kSettings);
  const auto decoded = DecodeAll(model, Path("both.wav"), [](auto& request) { request.audio.channels = "each"; });
  ASSERT_EQ(decoded.size(), 2U);
  for (int channel = 0; channel < 2; ++channel) {
    ExpectSame(recognizer.RecognizeFile(Path("both.wav"), {.channel = channel}), decoded[static_cast<size_t>(channel)]);
  }
  ExpectSame(recognizer.RecognizeFile(Path("both.wav")), Decode(model, Path("both.wav")));
  EXPECT_THROW(recognizer.RecognizeFile(Path("both.wav"), {.channel = 2}), UsageError);
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
