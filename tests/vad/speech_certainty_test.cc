// How sure a network is that it hears speech: the mean where there is speech, of any stretch, whatever was forgotten.
#include "vad/speech_certainty.h"

#include <gtest/gtest.h>

#include <limits>

namespace antiphon::vad {
namespace {

SpeechCertainty Of(const std::vector<double>& probabilities) {
  SpeechCertainty certainty(0.5, 0.01);
  for (const double p : probabilities) certainty.Accept(p);
  return certainty;
}

TEST(SpeechCertainty, IsTheMeanOfFramesThatCountAsSpeech) {
  const SpeechCertainty certainty = Of({0.0, 0.5, 1.0, 0.49, 0.75, 0.1});
  EXPECT_DOUBLE_EQ(certainty.Between(0.0, 0.06), 0.75);
  EXPECT_DOUBLE_EQ(certainty.Between(0.0, std::numeric_limits<double>::infinity()), 0.75);
  EXPECT_DOUBLE_EQ(certainty.Between(0.0, 0.03), 0.75);
  EXPECT_DOUBLE_EQ(certainty.Between(0.02, 0.05), 0.875);
  EXPECT_DOUBLE_EQ(certainty.Between(0.01, 0.02), 0.5) << "the end is not part of it";
}

TEST(SpeechCertainty, IsNoneWithoutSpeech) {
  const SpeechCertainty certainty = Of({0.1, 0.9, 0.4});
  EXPECT_EQ(certainty.Between(0.0, 0.01), 0.0);
  EXPECT_EQ(certainty.Between(0.02, 0.02), 0.0);
  EXPECT_EQ(certainty.Between(5.0, 9.0), 0.0) << "not heard yet";
  EXPECT_EQ(Of({}).Between(0.0, 1.0), 0.0);
}

TEST(SpeechCertainty, StaysTheSameWhenWhatLiesBeforeIsForgotten) {
  SpeechCertainty certainty = Of({0.9, 0.8, 0.7, 0.6});
  const double before = certainty.Between(0.02, 0.04);
  certainty.ForgetBefore(0.02);
  certainty.ForgetBefore(0.01);  // is forgotten already
  EXPECT_EQ(certainty.Between(0.02, 0.04), before);
  certainty.Accept(1.0);
  EXPECT_EQ(certainty.Between(0.04, 0.05), 1.0);
  certainty.ForgetBefore(7.0);  // more than there is
  certainty.Accept(0.625);
  EXPECT_EQ(certainty.Between(0.05, 0.06), 0.625);
}

}  // namespace
}  // namespace antiphon::vad
