// The C interface: the same as the C++ one gives, and an error for every call that cannot be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "antiphon.h"
#include "antiphon/aligner.h"
#include "antiphon/recognizer.h"
#include "antiphon/version.h"
#include "api/c_system.h"
#include "feat/audio.h"

namespace antiphon {
namespace {

using ::testing::HasSubstr;
using testing::kRateHz;

using CInterface = testing::CSystem;

TEST_F(CInterface, RecognisesAsCppDoes) {
  const Recognizer expected_by(Model(), Graph(), {.beam = 6, .nbest = 2});
  const std::vector<float> speech = Speech(3);
  const Recognition expected = expected_by.Recognize(speech, kRateHz);
  ASSERT_FALSE(expected.words.empty());
  ASSERT_EQ(antiphon_recognize(recognizer_, speech.data(), speech.size(), kRateHz, result_), ANTIPHON_OK)
      << antiphon_result_error(result_);
  ExpectHeld(expected);
  EXPECT_STREQ(antiphon_result_textgrid(result_), "");
  feat::Waveform wave{speech, kRateHz};
  for (float& x : wave.samples) x *= 32768;
  feat::WriteWav(Path("a.wav"), wave);
  ASSERT_EQ(antiphon_recognize_file(recognizer_, Path("a.wav").c_str(), -1, result_), ANTIPHON_OK);
  EXPECT_EQ(antiphon_result_json(result_), ToJson(expected_by.RecognizeFile(Path("a.wav"))));
  EXPECT_EQ(antiphon_recognizer_sample_rate(recognizer_), kRateHz);
  EXPECT_STREQ(antiphon_version(), LibraryVersionText());
}

TEST_F(CInterface, ManyThreadsUseOneRecognizer) {
  const std::vector<float> speech = Speech(2);
  ASSERT_EQ(antiphon_recognize(recognizer_, speech.data(), speech.size(), kRateHz, result_), ANTIPHON_OK);
  std::vector<std::string> said(4);
  std::vector<std::thread> threads;
  for (std::string& text : said) {
    threads.emplace_back([&] {
      antiphon_result* result = antiphon_result_new();
      antiphon_recognize(recognizer_, speech.data(), speech.size(), kRateHz, result);
      text = antiphon_result_json(result);
      antiphon_result_free(&result);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : said) EXPECT_EQ(text, antiphon_result_json(result_));
}

TEST_F(CInterface, StreamsAsCppDoes) {
  const std::vector<float> speech = Speech(3);
  Stream expected_by =
      Recognizer(Model(), Graph(), {.beam = 6, .nbest = 2}).NewStream(kRateHz, {.max_utterance_s = 0.9});
  std::vector<std::string> expected, heard;
  for (const StreamEvent& event : expected_by.Accept(speech)) expected.push_back(ToJson(event));
  for (const StreamEvent& event : expected_by.End()) expected.push_back(ToJson(event));
  antiphon_settings* settings = antiphon_settings_new();
  antiphon_settings_set(settings, "max-utterance", "0.9");
  antiphon_stream* stream = antiphon_stream_new(recognizer_, kRateHz, settings);
  antiphon_settings_free(&settings);
  antiphon_recognizer_free(&recognizer_);  // the stream keeps what it needs
  const auto take = [&] {
    for (size_t i = 0; i < antiphon_stream_num_events(stream); ++i) {
      heard.emplace_back(antiphon_stream_event_json(stream, i));
      const auto json = nlohmann::json::parse(heard.back());
      EXPECT_EQ(json.at("text"), antiphon_stream_event_text(stream, i));
      EXPECT_EQ(json.at("final"), antiphon_stream_event_final(stream, i) == 1);
    }
  };
  for (size_t at = 0; at < speech.size(); at += 777) {
    ASSERT_EQ(antiphon_stream_accept(stream, speech.data() + at, std::min<size_t>(777, speech.size() - at)),
              ANTIPHON_OK);
    take();
  }
  ASSERT_EQ(antiphon_stream_end(stream), ANTIPHON_OK);
  take();
  EXPECT_EQ(heard, expected);
  EXPECT_GT(heard.size(), 3U);
  antiphon_stream_free(&stream);
}

TEST_F(CInterface, PrefersAndAllowsWords) {
  const std::vector<float> speech = Speech(3);
  antiphon_settings* settings = antiphon_settings_new();
  antiphon_settings_set(settings, "beam", "6");
  EXPECT_EQ(antiphon_settings_allow(settings, "ONE"), ANTIPHON_OK);
  EXPECT_EQ(antiphon_settings_prefer(settings, "ONE ONE", 2.0), ANTIPHON_OK);
  antiphon_recognizer* one = antiphon_recognizer_new(Model().c_str(), Graph().c_str(), settings);
  antiphon_recognize(one, speech.data(), speech.size(), kRateHz, result_);
  EXPECT_EQ(antiphon_result_text(result_),
            Recognizer(Model(), Graph(), {.beam = 6, .hotwords = {{"ONE ONE", 2.0}}, .word_list = {"ONE"}})
                .Recognize(speech, kRateHz)
                .text);
  EXPECT_GT(antiphon_result_num_words(result_), 0U);
  antiphon_recognizer_free(&one);
  // They are none of an aligner's business.
  antiphon_aligner* aligner = antiphon_aligner_new(Model().c_str(), Path("lexicon.txt").c_str(), settings);
  EXPECT_EQ(antiphon_aligner_status(aligner), ANTIPHON_ERROR_USAGE);
  antiphon_aligner_free(&aligner);
  antiphon_settings_free(&settings);
}

TEST_F(CInterface, AlignsAsCppDoes) {
  const std::vector<float> speech = Speech(2);
  antiphon_aligner* aligner = antiphon_aligner_new(Model().c_str(), Path("lexicon.txt").c_str(), nullptr);
  ASSERT_EQ(antiphon_aligner_status(aligner), ANTIPHON_OK) << antiphon_aligner_error(aligner);
  ASSERT_EQ(antiphon_align(aligner, speech.data(), speech.size(), kRateHz, "ONE TWO ONE", result_), ANTIPHON_OK)
      << antiphon_result_error(result_);
  const AlignedSpeech expected = Aligner(Model(), Path("lexicon.txt")).Align(speech, kRateHz, "ONE TWO ONE");
  EXPECT_EQ(antiphon_result_json(result_), ToJson(expected));
  EXPECT_EQ(antiphon_result_textgrid(result_), ToTextGrid(expected));
  EXPECT_STREQ(antiphon_result_text(result_), "ONE TWO ONE");
  ASSERT_EQ(antiphon_result_num_words(result_), 3U);
  EXPECT_EQ(antiphon_result_word_start(result_, 1), expected.words[1].start_s);
  EXPECT_EQ(antiphon_result_word_confidence(result_, 1), -1.0);
  EXPECT_EQ(antiphon_align(aligner, speech.data(), speech.size(), kRateHz, nullptr, result_), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_align_file(aligner, "/nonexistent.wav", -1, "ONE", result_), ANTIPHON_ERROR_INPUT);
  EXPECT_EQ(antiphon_align(aligner, speech.data(), 10, kRateHz, "ONE TWO", result_), ANTIPHON_ERROR_INPUT);
  antiphon_aligner_free(&aligner);
}

// Null handles and freed ones, which are null.
TEST_F(CInterface, RefusesHandlesThatAreNone) {
  const std::vector<float> speech = Speech(1);
  antiphon_recognizer* freed = recognizer_;
  antiphon_recognizer_free(&recognizer_);
  freed = recognizer_;
  EXPECT_EQ(freed, nullptr);
  EXPECT_EQ(antiphon_recognize(freed, speech.data(), speech.size(), kRateHz, result_), ANTIPHON_ERROR_USAGE);
  EXPECT_THAT(antiphon_result_error(result_), HasSubstr("recognizer is NULL"));
  EXPECT_EQ(antiphon_recognize_file(freed, "a.wav", -1, result_), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_recognize(freed, nullptr, 0, kRateHz, nullptr), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_recognizer_status(freed), ANTIPHON_ERROR_USAGE);
  EXPECT_STRNE(antiphon_recognizer_error(freed), "");
  EXPECT_EQ(antiphon_recognizer_sample_rate(freed), 0);
  antiphon_stream* stream = antiphon_stream_new(freed, kRateHz, nullptr);
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(antiphon_stream_status(stream), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_stream_accept(stream, speech.data(), speech.size()), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_stream_end(stream), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_stream_save_memory(stream, "x"), ANTIPHON_ERROR_USAGE);
  antiphon_stream_free(&stream);
  antiphon_stream_free(&stream);
  antiphon_stream_free(nullptr);
  EXPECT_EQ(antiphon_stream_accept(stream, speech.data(), 1), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_stream_accept_int16(stream, nullptr, 0), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_stream_end(stream), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_stream_status(stream), ANTIPHON_ERROR_USAGE);
  EXPECT_STRNE(antiphon_stream_error(stream), "");
  EXPECT_EQ(antiphon_stream_num_events(stream), 0U);
  EXPECT_STREQ(antiphon_stream_event_text(stream, 0), "");
  EXPECT_STREQ(antiphon_stream_event_json(stream, 0), "");
  EXPECT_EQ(antiphon_stream_event_final(stream, 0), 0);
  EXPECT_EQ(antiphon_stream_save_memory(stream, "x"), ANTIPHON_ERROR_USAGE);
  antiphon_stream_cancel(stream);
  antiphon_aligner* aligner = nullptr;
  EXPECT_EQ(antiphon_align(aligner, speech.data(), speech.size(), kRateHz, "ONE", result_), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_align_file(aligner, "a.wav", -1, "ONE", nullptr), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_aligner_status(aligner), ANTIPHON_ERROR_USAGE);
  EXPECT_STRNE(antiphon_aligner_error(aligner), "");
  antiphon_aligner_free(&aligner);
  antiphon_settings* settings = nullptr;
  EXPECT_EQ(antiphon_settings_set(settings, "beam", "3"), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_settings_prefer(settings, "ONE", 3), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_settings_allow(settings, "ONE"), ANTIPHON_ERROR_USAGE);
  EXPECT_STRNE(antiphon_settings_error(settings), "");
  antiphon_settings_free(&settings);
  antiphon_result_free(&result_);
  EXPECT_EQ(result_, nullptr);
  EXPECT_EQ(antiphon_result_status(result_), ANTIPHON_ERROR_USAGE);
  for (const char* text : {antiphon_result_text(result_), antiphon_result_json(result_),
                           antiphon_result_textgrid(result_), antiphon_result_word(result_, 0)}) {
    EXPECT_STREQ(text, "");
  }
  EXPECT_STRNE(antiphon_result_error(result_), "");
  EXPECT_EQ(antiphon_result_num_words(result_), 0U);
  EXPECT_EQ(antiphon_result_word_start(result_, 0) + antiphon_result_word_end(result_, 0) +
                antiphon_result_word_confidence(result_, 0),
            0.0);
  antiphon_result_cancel(result_);
  antiphon_result_free(&result_);
}

TEST_F(CInterface, RefusesWhatCannotBeAndGoesOn) {
  const std::vector<float> speech = Speech(1);
  EXPECT_EQ(antiphon_recognize(recognizer_, nullptr, 5, kRateHz, result_), ANTIPHON_ERROR_USAGE);
  for (const int rate_hz : {0, -1, 1 << 30}) {
    EXPECT_EQ(antiphon_recognize(recognizer_, speech.data(), speech.size(), rate_hz, result_), ANTIPHON_ERROR_USAGE);
    EXPECT_THAT(antiphon_result_error(result_), HasSubstr("rate"));
    antiphon_stream* stream = antiphon_stream_new(recognizer_, rate_hz, nullptr);
    EXPECT_EQ(antiphon_stream_status(stream), ANTIPHON_ERROR_USAGE);
    EXPECT_THAT(antiphon_stream_error(stream), HasSubstr("rate"));
    antiphon_stream_free(&stream);
  }
  const std::vector<float> nan(1000, NAN);
  EXPECT_EQ(antiphon_recognize(recognizer_, nan.data(), nan.size(), kRateHz, result_), ANTIPHON_ERROR_INPUT);
  EXPECT_STREQ(antiphon_result_json(result_), "");
  EXPECT_EQ(antiphon_recognize_file(recognizer_, nullptr, -1, result_), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_recognize_file(recognizer_, "/nonexistent.wav", -1, result_), ANTIPHON_ERROR_INPUT);
  EXPECT_THAT(antiphon_result_error(result_), HasSubstr("/nonexistent.wav"));
  EXPECT_EQ(antiphon_recognize(recognizer_, nullptr, 0, kRateHz, result_), ANTIPHON_OK) << "no samples, no words";
  EXPECT_EQ(antiphon_result_num_words(result_), 0U);
  EXPECT_EQ(antiphon_recognize(recognizer_, speech.data(), speech.size(), kRateHz, result_), ANTIPHON_OK);
  EXPECT_STREQ(antiphon_result_error(result_), "");

  antiphon_stream* stream = antiphon_stream_new(recognizer_, kRateHz, nullptr);
  EXPECT_EQ(antiphon_stream_accept(stream, nan.data(), nan.size()), ANTIPHON_ERROR_INPUT);
  EXPECT_EQ(antiphon_stream_accept(stream, nullptr, 1), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_stream_accept(stream, speech.data(), speech.size()), ANTIPHON_OK);
  EXPECT_STREQ(antiphon_stream_event_text(stream, 1000), "");
  EXPECT_EQ(antiphon_stream_end(stream), ANTIPHON_OK);
  EXPECT_EQ(antiphon_stream_end(stream), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_stream_num_events(stream), 0U);
  EXPECT_EQ(antiphon_stream_accept(stream, speech.data(), speech.size()), ANTIPHON_ERROR_USAGE);
  EXPECT_THAT(antiphon_stream_error(stream), HasSubstr("over"));
  EXPECT_EQ(antiphon_stream_save_memory(stream, nullptr), ANTIPHON_ERROR_USAGE);
  antiphon_stream_free(&stream);
}

TEST_F(CInterface, SaysWhyAHandleIsNotGood) {
  antiphon_recognizer* bad = antiphon_recognizer_new("/nonexistent.safetensors", Graph().c_str(), nullptr);
  ASSERT_NE(bad, nullptr);
  EXPECT_EQ(antiphon_recognizer_status(bad), ANTIPHON_ERROR_IO);
  EXPECT_THAT(antiphon_recognizer_error(bad), HasSubstr("/nonexistent.safetensors"));
  EXPECT_EQ(antiphon_recognizer_sample_rate(bad), 0);
  EXPECT_EQ(antiphon_recognize(bad, nullptr, 0, kRateHz, result_), ANTIPHON_ERROR_USAGE);
  EXPECT_THAT(antiphon_result_error(result_), HasSubstr("/nonexistent.safetensors"));
  antiphon_stream* stream = antiphon_stream_new(bad, kRateHz, nullptr);
  EXPECT_THAT(antiphon_stream_error(stream), HasSubstr("/nonexistent.safetensors"));
  antiphon_stream_free(&stream);
  antiphon_recognizer_free(&bad);
  const std::string good = Model();
  for (const auto& [model, graph] : {std::pair<const char*, const char*>{nullptr, "x"}, {good.c_str(), nullptr}}) {
    bad = antiphon_recognizer_new(model, graph, nullptr);
    EXPECT_EQ(antiphon_recognizer_status(bad), ANTIPHON_ERROR_USAGE);
    antiphon_recognizer_free(&bad);
    antiphon_aligner* aligner = antiphon_aligner_new(model, graph, nullptr);
    EXPECT_EQ(antiphon_aligner_status(aligner), ANTIPHON_ERROR_USAGE);
    antiphon_aligner_free(&aligner);
  }
  antiphon_settings* settings = antiphon_settings_new();
  EXPECT_EQ(antiphon_settings_set(settings, nullptr, "3"), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_settings_set(settings, "beam", nullptr), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_settings_prefer(settings, nullptr, 1.0), ANTIPHON_ERROR_USAGE);
  EXPECT_EQ(antiphon_settings_allow(settings, nullptr), ANTIPHON_ERROR_USAGE);
  EXPECT_THAT(antiphon_settings_error(settings), HasSubstr("NULL"));
  EXPECT_EQ(antiphon_settings_set(settings, "beem", "3"), ANTIPHON_OK) << "known when it is used";
  bad = antiphon_recognizer_new(Model().c_str(), Graph().c_str(), settings);
  EXPECT_EQ(antiphon_recognizer_status(bad), ANTIPHON_ERROR_USAGE);
  EXPECT_THAT(antiphon_recognizer_error(bad), HasSubstr("beam"));
  antiphon_recognizer_free(&bad);
  antiphon_settings_free(&settings);
}

TEST_F(CInterface, TakesTextAsItStands) {
  const auto with = [](const char* option, const char* value) {
    antiphon_settings* settings = antiphon_settings_new();
    EXPECT_EQ(antiphon_settings_set(settings, option, value), ANTIPHON_OK);
    return settings;
  };
  for (const char* file : {"2024", "true", "1979-05-27", "\"quoted\"", "[list]"}) {
    antiphon_settings* settings = with("weights", file);
    antiphon_recognizer* recognizer = antiphon_recognizer_new(Model().c_str(), Graph().c_str(), settings);
    EXPECT_EQ(antiphon_recognizer_status(recognizer), ANTIPHON_ERROR_IO);
    EXPECT_THAT(antiphon_recognizer_error(recognizer), HasSubstr(file));
    antiphon_recognizer_free(&recognizer);
    antiphon_settings_free(&settings);
    settings = with("memory", file);
    antiphon_stream* stream = antiphon_stream_new(recognizer_, kRateHz, settings);
    EXPECT_EQ(antiphon_stream_status(stream), ANTIPHON_ERROR_IO);
    EXPECT_THAT(antiphon_stream_error(stream), HasSubstr(file));
    antiphon_stream_free(&stream);
    antiphon_settings_free(&settings);
    settings = with("nnet.precision", file);
    antiphon_aligner* aligner = antiphon_aligner_new(Model().c_str(), Path("lexicon.txt").c_str(), settings);
    EXPECT_EQ(antiphon_aligner_status(aligner), ANTIPHON_ERROR_USAGE);
    EXPECT_THAT(antiphon_aligner_error(aligner), HasSubstr(file));
    antiphon_aligner_free(&aligner);
    antiphon_settings_free(&settings);
  }
  antiphon_settings* settings = with("hotwords", "2024");
  antiphon_recognizer* recognizer = antiphon_recognizer_new(Model().c_str(), Graph().c_str(), settings);
  EXPECT_EQ(antiphon_recognizer_status(recognizer), ANTIPHON_OK) << antiphon_recognizer_error(recognizer);
  antiphon_recognizer_free(&recognizer);
  antiphon_settings_free(&settings);
}

TEST_F(CInterface, StopsWhenItIsAskedTo) {
  const std::vector<float> speech = Speech(1);
  antiphon_result_cancel(result_);
  EXPECT_EQ(antiphon_recognize(recognizer_, speech.data(), speech.size(), kRateHz, result_), ANTIPHON_ERROR_CANCELLED);
  antiphon_stream* stream = antiphon_stream_new(recognizer_, kRateHz, nullptr);
  antiphon_stream_cancel(stream);
  EXPECT_EQ(antiphon_stream_accept(stream, speech.data(), speech.size()), ANTIPHON_ERROR_CANCELLED);
  antiphon_stream_free(&stream);
}

}  // namespace
}  // namespace antiphon
