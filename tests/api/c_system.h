// What tests of the C interface share: a recogniser of two words by its handle, and noise that it hears words in.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "antiphon.h"
#include "antiphon/recognition.h"
#include "api/two_words.h"
#include "base/file.h"

namespace antiphon::testing {

class CSystem : public ::testing::Test {
 protected:
  CSystem() {
    WriteFileAtomically(system_.folder / "lexicon.txt", "ONE A\nTWO B\n");
    antiphon_settings* settings = antiphon_settings_new();
    EXPECT_EQ(antiphon_settings_set(settings, "beam", "6"), ANTIPHON_OK);
    EXPECT_EQ(antiphon_settings_set(settings, "nbest", "2"), ANTIPHON_OK);
    recognizer_ = antiphon_recognizer_new(Model().c_str(), Graph().c_str(), settings);
    antiphon_settings_free(&settings);
    EXPECT_EQ(antiphon_recognizer_status(recognizer_), ANTIPHON_OK) << antiphon_recognizer_error(recognizer_);
  }
  ~CSystem() override {
    antiphon_recognizer_free(&recognizer_);
    antiphon_result_free(&result_);
  }
  // Every accessor of a result, against the recognition that it holds.
  void ExpectHeld(const Recognition& expected) const {
    EXPECT_EQ(antiphon_result_text(result_), expected.text);
    EXPECT_EQ(antiphon_result_written(result_), expected.written);
    EXPECT_EQ(antiphon_result_remark(result_), expected.remark);
    ASSERT_EQ(antiphon_result_num_audio_remarks(result_), expected.audio_remarks.size());
    for (size_t i = 0; i < expected.audio_remarks.size(); ++i) {
      EXPECT_EQ(antiphon_result_audio_remark(result_, i), expected.audio_remarks[i]);
    }
    EXPECT_STREQ(antiphon_result_audio_remark(result_, expected.audio_remarks.size()), "");
    EXPECT_EQ(antiphon_result_json(result_), ToJson(expected));
    ASSERT_EQ(antiphon_result_num_words(result_), expected.words.size());
    for (size_t i = 0; i < expected.words.size(); ++i) {
      EXPECT_EQ(antiphon_result_word(result_, i), expected.words[i].word);
      EXPECT_EQ(antiphon_result_word_start(result_, i), expected.words[i].start_s);
      EXPECT_EQ(antiphon_result_word_end(result_, i), expected.words[i].end_s);
      EXPECT_EQ(antiphon_result_word_confidence(result_, i), expected.words[i].confidence);
    }
    ASSERT_EQ(antiphon_result_num_hypotheses(result_), expected.nbest.size());
    for (size_t i = 0; i < expected.nbest.size(); ++i) {
      EXPECT_EQ(antiphon_result_hypothesis_text(result_, i), expected.nbest[i].text);
      EXPECT_EQ(antiphon_result_hypothesis_cost(result_, i), expected.nbest[i].cost);
    }
  }
  std::string Path(const std::string& name) const { return (system_.folder / name).string(); }
  std::string Model() const { return Path("net.safetensors"); }
  std::string Graph() const { return Path("graph"); }
  static std::vector<float> Speech(int seconds) {
    std::vector<float> speech = Noise(seconds * kRateHz);
    for (float& x : speech) x = std::clamp(std::round(x), -32768.0F, 32767.0F) / 32768;
    return speech;
  }

  const TwoWords system_{false};
  antiphon_recognizer* recognizer_ = nullptr;
  antiphon_result* result_ = antiphon_result_new();
};

}  // namespace antiphon::testing
