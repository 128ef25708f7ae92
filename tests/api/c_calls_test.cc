// What a C program can ask for beyond words: hypotheses, phones, speakers, words of its own, what is understood so far.
// All of it is what the C++ interface gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <utility>

#include "antiphon.h"
#include "antiphon/aligner.h"
#include "antiphon/recognizer.h"
#include "api/c_system.h"
#include "api/folded_profile.h"
#include "base/log.h"
#include "feat/audio.h"

namespace antiphon {
namespace {

using ::testing::HasSubstr;
using testing::kRateHz;

class CCalls : public testing::CSystem {
 protected:
  // As a file, and what is in it.
  std::vector<std::byte> SpeechFile(int seconds) const {
    feat::Waveform wave{Speech(seconds), kRateHz};
    for (float& x : wave.samples) x *= 32768;
    feat::WriteWav(Path("a.wav"), wave);
    const MappedFile file(Path("a.wav"));
    return {file.bytes().begin(), file.bytes().end()};
  }

  // A model that knows more of a speaker with each call.
  void UseModelWithMemory() {
    nn::Model network = nn::Model::Load(Model());
    network.feature_config += "mean-window = 100\nmean-prior = [1, 2, 3, 4, 5]\n";
    network.Save(Model());
    antiphon_recognizer_free(&recognizer_);
    recognizer_ = antiphon_recognizer_new(Model().c_str(), Graph().c_str(), nullptr);
  }
};

TEST_F(CCalls, TakeSamplesFilesAndBytes) {
  const Recognizer cpp(Model(), Graph(), {.beam = 6, .nbest = 2});
  const std::vector<std::byte> bytes = SpeechFile(3);
  ASSERT_EQ(antiphon_recognize_bytes(recognizer_, bytes.data(), bytes.size(), -1, "a", result_), ANTIPHON_OK)
      << antiphon_result_error(result_);
  ExpectHeld(cpp.RecognizeBytes(bytes, {}, "a"));
  EXPECT_EQ(antiphon_result_num_hypotheses(result_), 2U);
  std::vector<int16_t> integers;
  for (const float x : Speech(3)) integers.push_back(static_cast<int16_t>(x * 32768));
  ASSERT_EQ(antiphon_recognize_int16(recognizer_, integers.data(), integers.size(), kRateHz, result_), ANTIPHON_OK);
  ExpectHeld(cpp.Recognize(Speech(3), kRateHz));
  EXPECT_EQ(antiphon_recognize_bytes(recognizer_, bytes.data(), bytes.size(), 1, "a", result_), ANTIPHON_ERROR_USAGE);
  EXPECT_THAT(antiphon_result_error(result_), HasSubstr("channel 1"));
  EXPECT_EQ(antiphon_recognize_bytes(recognizer_, bytes.data(), 20, -1, "cut", result_), ANTIPHON_ERROR_INPUT);
  EXPECT_THAT(antiphon_result_error(result_), HasSubstr("'cut'"));
  EXPECT_EQ(antiphon_recognize_bytes(recognizer_, nullptr, 20, -1, "a", result_), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_recognize_int16(recognizer_, nullptr, 1, kRateHz, result_), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_result_num_hypotheses(result_), 0U);
}

TEST_F(CCalls, AskForHypothesesAndTellOfProgress) {
  const Recognizer cpp(Model(), Graph(), {.beam = 6, .nbest = 2});
  const std::vector<float> speech = Speech(2);
  std::vector<double> told, expected;
  const auto note = [](double done_s, void* list) { static_cast<std::vector<double>*>(list)->push_back(done_s); };
  EXPECT_EQ(antiphon_result_set_nbest(result_, 3), ANTIPHON_OK);
  EXPECT_EQ(antiphon_result_set_progress(result_, note, &told), ANTIPHON_OK);
  ASSERT_EQ(antiphon_recognize(recognizer_, speech.data(), speech.size(), kRateHz, result_), ANTIPHON_OK);
  ExpectHeld(
      cpp.Recognize(speech, kRateHz, {.nbest = 3, .progress = [&](double done_s) { expected.push_back(done_s); }}));
  EXPECT_EQ(told, expected);
  EXPECT_FALSE(told.empty());
  antiphon_result_set_progress(result_, nullptr, nullptr);
  antiphon_result_set_nbest(result_, -2);
  EXPECT_EQ(antiphon_recognize(recognizer_, speech.data(), speech.size(), kRateHz, result_), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(told, expected);
}

TEST_F(CCalls, KnowSpeakers) {
  UseModelWithMemory();
  EXPECT_EQ(antiphon_recognizer_uses_memory(recognizer_), 1);
  const Recognizer cpp(Model(), Graph());
  const std::vector<float> speech = Speech(2);
  SpeakerMemory memory;
  cpp.Recognize(speech, kRateHz, {.memory = &memory});
  const Recognition second = cpp.Recognize(speech, kRateHz, {.memory = &memory});
  antiphon_speaker* anna = antiphon_speaker_new(recognizer_, nullptr, "");
  ASSERT_EQ(antiphon_speaker_status(anna), ANTIPHON_OK) << antiphon_speaker_error(anna);
  ASSERT_EQ(antiphon_result_set_speaker(result_, anna), ANTIPHON_OK);
  const auto recognize = [&] {
    EXPECT_EQ(antiphon_recognize(recognizer_, speech.data(), speech.size(), kRateHz, result_), ANTIPHON_OK);
  };
  recognize();
  ASSERT_EQ(antiphon_speaker_save_memory(anna, Path("anna").c_str()), ANTIPHON_OK) << antiphon_speaker_error(anna);
  antiphon_speaker_free(&anna);  // the result has it
  recognize();
  ExpectHeld(second);
  antiphon_result_set_speaker(result_, nullptr);
  recognize();
  ExpectHeld(cpp.Recognize(speech, kRateHz));
  // As it was when it was saved.
  anna = antiphon_speaker_new(recognizer_, nullptr, Path("anna").c_str());
  ASSERT_EQ(antiphon_speaker_status(anna), ANTIPHON_OK) << antiphon_speaker_error(anna);
  antiphon_result_set_speaker(result_, anna);
  recognize();
  ExpectHeld(second);
  antiphon_speaker_free(&anna);
}

TEST_F(CCalls, KnowAProfile) {
  nn::SpeakerProfile profile;
  profile.parts = {testing::PowersOfTwo("sigmoid1", testing::kHidden, 2)};
  profile.model = nn::ModelId(system_.network.network);
  profile.Save(Path("anna.safetensors"));
  const Recognizer cpp(Model(), Graph(), {.beam = 6, .nbest = 2});
  const std::vector<float> speech = Speech(2);
  antiphon_speaker* anna = antiphon_speaker_new(recognizer_, Path("anna.safetensors").c_str(), nullptr);
  ASSERT_EQ(antiphon_speaker_status(anna), ANTIPHON_OK) << antiphon_speaker_error(anna);
  antiphon_result_set_speaker(result_, anna);
  antiphon_speaker_free(&anna);
  ASSERT_EQ(antiphon_recognize(recognizer_, speech.data(), speech.size(), kRateHz, result_), ANTIPHON_OK);
  const Recognition known = cpp.Recognize(speech, kRateHz, {.profile = cpp.LoadProfile(Path("anna.safetensors"))});
  ExpectHeld(known);
  EXPECT_NE(known, cpp.Recognize(speech, kRateHz));
}

TEST_F(CCalls, RefuseSpeakersThatAreNone) {
  antiphon_speaker* bad = antiphon_speaker_new(recognizer_, Path("missing").c_str(), nullptr);
  ASSERT_NE(bad, nullptr);
  EXPECT_EQ(antiphon_speaker_status(bad), ANTIPHON_ERROR_IO);
  EXPECT_THAT(antiphon_speaker_error(bad), HasSubstr("missing"));
  EXPECT_EQ(antiphon_speaker_save_memory(bad, Path("x").c_str()), ANTIPHON_ERROR_IO);
  EXPECT_EQ(antiphon_result_set_speaker(result_, bad), ANTIPHON_ERROR_USAGE);
  EXPECT_THAT(antiphon_result_error(result_), HasSubstr("missing"));
  antiphon_speaker_free(&bad);
  antiphon_speaker* none = antiphon_speaker_new(nullptr, nullptr, nullptr);
  EXPECT_EQ(antiphon_speaker_status(none), ANTIPHON_ERROR_USAGE);
  antiphon_speaker_free(&none);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(antiphon_speaker_status(none), ANTIPHON_ERROR_USAGE);
  EXPECT_STRNE(antiphon_speaker_error(none), "");
  EXPECT_EQ(antiphon_speaker_save_memory(none, "x"), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_result_set_speaker(nullptr, none), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_result_set_nbest(nullptr, 1), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_result_set_progress(nullptr, nullptr, nullptr), ANTIPHON_ERROR_USAGE);
}

TEST_F(CCalls, TellWhatARecognizerKnows) {
  const std::vector<std::string> words = Recognizer(Model(), Graph()).Vocabulary();
  ASSERT_EQ(antiphon_recognizer_num_words(recognizer_), words.size());
  for (size_t i = 0; i < words.size(); ++i) EXPECT_EQ(antiphon_recognizer_word(recognizer_, i), words[i]);
  EXPECT_STREQ(antiphon_recognizer_word(recognizer_, words.size()), "");
  EXPECT_EQ(antiphon_recognizer_uses_memory(recognizer_), 1) << "of the mean, live";
  EXPECT_EQ(antiphon_recognizer_num_words(nullptr), 0U);
  EXPECT_STREQ(antiphon_recognizer_word(nullptr, 0), "");
  EXPECT_EQ(antiphon_recognizer_uses_memory(nullptr), 0);
}

TEST_F(CCalls, GivePhonesOfAnAlignment) {
  const std::vector<float> speech = Speech(2);
  const AlignedSpeech expected = Aligner(Model(), Path("lexicon.txt")).Align(speech, kRateHz, "ONE TWO");
  antiphon_aligner* aligner = antiphon_aligner_new(Model().c_str(), Path("lexicon.txt").c_str(), nullptr);
  ASSERT_EQ(antiphon_align(aligner, speech.data(), speech.size(), kRateHz, "ONE TWO", result_), ANTIPHON_OK)
      << antiphon_result_error(result_);
  ASSERT_EQ(antiphon_result_num_phones(result_), expected.phones.size());
  for (size_t i = 0; i < expected.phones.size(); ++i) {
    EXPECT_EQ(antiphon_result_phone(result_, i), expected.phones[i].phone);
    EXPECT_EQ(antiphon_result_phone_start(result_, i), expected.phones[i].start_s);
    EXPECT_EQ(antiphon_result_phone_end(result_, i), expected.phones[i].end_s);
  }
  for (size_t i = 0; i < expected.words.size(); ++i) {
    EXPECT_EQ(antiphon_result_word_first_phone(result_, i), static_cast<size_t>(expected.words[i].first_phone));
    EXPECT_EQ(antiphon_result_word_num_phones(result_, i), static_cast<size_t>(expected.words[i].num_phones));
  }
  EXPECT_STREQ(antiphon_result_phone(result_, expected.phones.size()), "");
  antiphon_aligner_free(&aligner);
  // They are those of the last call alone.
  antiphon_recognize(recognizer_, speech.data(), speech.size(), kRateHz, result_);
  EXPECT_EQ(antiphon_result_num_phones(result_), 0U);
  EXPECT_EQ(antiphon_result_word_num_phones(result_, 0), 0U);
}

TEST_F(CCalls, GiveEventsOfAStreamAsResults) {
  const std::vector<float> speech = Speech(3);
  Stream cpp = Recognizer(Model(), Graph(), {.beam = 6, .nbest = 2}).NewStream(kRateHz, {.max_utterance_s = 0.9});
  std::vector<StreamEvent> expected = cpp.Accept(speech);
  antiphon_settings* settings = antiphon_settings_new();
  antiphon_settings_set(settings, "max-utterance", "0.9");
  antiphon_stream* stream = antiphon_stream_new(recognizer_, kRateHz, settings);
  antiphon_settings_free(&settings);
  const auto check = [&] {
    ASSERT_EQ(antiphon_stream_num_events(stream), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(antiphon_stream_event_start(stream, i), expected[i].start_s);
      EXPECT_EQ(antiphon_stream_event_end(stream, i), expected[i].end_s);
      ASSERT_EQ(antiphon_stream_event_result(stream, i, result_), ANTIPHON_OK);
      ExpectHeld(expected[i]);
    }
  };
  ASSERT_EQ(antiphon_stream_accept(stream, speech.data(), speech.size()), ANTIPHON_OK);
  check();
  EXPECT_TRUE(std::ranges::any_of(expected, [](const auto& e) { return !e.final && !e.words.empty(); }));
  EXPECT_EQ(antiphon_stream_event_result(stream, expected.size(), result_), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_result_num_words(result_), 0U);
  EXPECT_EQ(antiphon_stream_event_result(nullptr, 0, result_), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_stream_event_result(stream, 0, nullptr), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_stream_ended(stream), 0);
  ASSERT_EQ(antiphon_stream_end(stream), ANTIPHON_OK);
  expected = cpp.End();
  check();
  EXPECT_EQ(antiphon_stream_ended(stream), 1);
  antiphon_stream_free(&stream);
  EXPECT_EQ(antiphon_stream_ended(stream), 1);
}

TEST_F(CCalls, GiveAStreamWordsAndHypothesesOfItsOwn) {
  const std::vector<float> speech = Speech(3);
  antiphon_settings* settings = antiphon_settings_new();
  antiphon_settings_set(settings, "nbest", "1");
  antiphon_settings_prefer(settings, "ONE ONE", 2.0);
  antiphon_settings_allow(settings, "ONE");
  antiphon_stream* stream = antiphon_stream_new(recognizer_, kRateHz, settings);
  ASSERT_EQ(antiphon_stream_status(stream), ANTIPHON_OK) << antiphon_stream_error(stream);
  antiphon_stream_accept(stream, speech.data(), speech.size());
  ASSERT_EQ(antiphon_stream_end(stream), ANTIPHON_OK);
  Stream cpp = Recognizer(Model(), Graph(), {.beam = 6})
                   .NewStream(kRateHz, {.hotwords = {{"ONE ONE", 2.0}}, .word_list = {"ONE"}, .nbest = 1});
  cpp.Accept(speech);
  const std::vector<StreamEvent> expected = cpp.End();
  ASSERT_EQ(antiphon_stream_num_events(stream), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(antiphon_stream_event_json(stream, i), ToJson(expected[i]));
  EXPECT_FALSE(expected.back().words.empty());
  antiphon_stream_free(&stream);
  // Words that the graph lacks are the recogniser's business.
  antiphon_settings_add_word(settings, "THREE", "A B", 1.0);
  stream = antiphon_stream_new(recognizer_, kRateHz, settings);
  EXPECT_EQ(antiphon_stream_status(stream), ANTIPHON_ERROR_USAGE);
  antiphon_stream_free(&stream);
  antiphon_settings_free(&settings);
}

TEST_F(CCalls, AddWords) {
  antiphon_settings* settings = antiphon_settings_new();
  EXPECT_EQ(antiphon_settings_add_word(settings, "THREE", "A B", 1.0), ANTIPHON_OK);
  antiphon_recognizer* more = antiphon_recognizer_new(Model().c_str(), Graph().c_str(), settings);
  std::string expected;
  try {
    Recognizer(Model(), Graph(), {.add_words = {{"THREE", "A B"}}});
  } catch (const std::exception& e) {
    expected = e.what();
  }
  EXPECT_THAT(expected, HasSubstr("on-the-fly"));
  EXPECT_EQ(antiphon_recognizer_error(more), expected);
  antiphon_recognizer_free(&more);
  system_.SaveParts();
  more = antiphon_recognizer_new(Model().c_str(), Path("parts").c_str(), settings);
  ASSERT_EQ(antiphon_recognizer_status(more), ANTIPHON_OK) << antiphon_recognizer_error(more);
  ASSERT_EQ(antiphon_recognizer_num_words(more), 3U);
  EXPECT_STREQ(antiphon_recognizer_word(more, 2), "THREE");
  antiphon_recognizer_free(&more);
  EXPECT_EQ(antiphon_settings_add_word(settings, nullptr, "A B", 1.0), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_settings_add_word(nullptr, "THREE", "A B", 1.0), ANTIPHON_ERROR_USAGE);
  antiphon_settings_free(&settings);
}

TEST_F(CCalls, TellWhatIsWrongWithTheSound) {
  antiphon_stream* stream = antiphon_stream_new(recognizer_, kRateHz, nullptr);
  const std::vector<float> silence(kRateHz, 0.0F);
  antiphon_stream_accept(stream, silence.data(), silence.size());
  antiphon_stream_end(stream);
  ASSERT_EQ(antiphon_stream_num_audio_remarks(stream), 1U);
  EXPECT_THAT(antiphon_stream_audio_remark(stream, 0), HasSubstr("muted"));
  EXPECT_STREQ(antiphon_stream_audio_remark(stream, 1), "");
  antiphon_stream_free(&stream);
  EXPECT_EQ(antiphon_stream_num_audio_remarks(stream), 0U);
  EXPECT_STREQ(antiphon_stream_audio_remark(stream, 0), "");
  std::vector<int16_t> clipped;
  for (const float x : Speech(3)) clipped.push_back(x < 0 ? INT16_MIN : INT16_MAX);
  ASSERT_EQ(antiphon_recognize_int16(recognizer_, clipped.data(), clipped.size(), kRateHz / 2, result_), ANTIPHON_OK);
  ASSERT_EQ(antiphon_result_num_audio_remarks(result_), 2U);
  EXPECT_THAT(antiphon_result_audio_remark(result_, 0), HasSubstr("nothing is heard above"));
  EXPECT_THAT(antiphon_result_audio_remark(result_, 1), HasSubstr("clipped"));
}

TEST_F(CCalls, HearTheLog) {
  std::multimap<int, std::string> told;
  const auto note = [](antiphon_log_level level, const char* message, void* list) {
    static_cast<std::multimap<int, std::string>*>(list)->emplace(level, message);
  };
  ASSERT_EQ(antiphon_set_log_callback(note, &told, ANTIPHON_LOG_WARNING), ANTIPHON_OK);
  log::Info("not this");
  log::Warn("{} words", 2);
  EXPECT_EQ(antiphon_set_log_callback(nullptr, nullptr, ANTIPHON_LOG_INFO), ANTIPHON_OK);
  log::Warn("nobody hears");
  EXPECT_EQ(told, (std::multimap<int, std::string>{{ANTIPHON_LOG_WARNING, "2 words"}}));
  EXPECT_EQ(antiphon_set_log_callback(note, &told, static_cast<antiphon_log_level>(7)), ANTIPHON_ERROR_USAGE);
}

}  // namespace
}  // namespace antiphon
