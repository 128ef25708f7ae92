// Measures of how well utterances fit their words: utterances that are all alike but for one, and too few to compare.
#include "pipeline/align_scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace antiphon::pipeline {
namespace {

using ::testing::HasSubstr;

// Two words of two phones each between pauses, 0.1 s a phone, a little longer or shorter by the utterance's number.
AlignedUtterance Ordinary(int number) {
  AlignedUtterance u;
  u.utt_id = "u" + std::to_string(number);
  const double length = 0.1 + 0.001 * (number % 5);
  double at = 0;
  const auto phone = [&](const char* name, double seconds) {
    u.times.phones.push_back({name, at, at + seconds});
    at += seconds;
  };
  phone("SIL", 0.2);
  for (const char* word : {"ONE", "TWO"}) {
    u.times.words.push_back({word, at, at + 2 * length, static_cast<int>(u.times.phones.size()), 2});
    phone("A", length);
    phone("B", length);
  }
  phone("SIL", 5.0);
  u.times.duration_s = at;
  u.times.log_likelihood = -50 + 0.1 * (number % 7);
  return u;
}

std::vector<AlignedUtterance> Ordinary(int begin, int end) {
  std::vector<AlignedUtterance> utterances;
  for (int u = begin; u < end; ++u) utterances.push_back(Ordinary(u));
  return utterances;
}

TEST(AlignScores, FindNothingInUtterancesThatAreAlike) {
  for (const AlignScore& score : ScoreAlignments(Ordinary(0, 30))) {
    EXPECT_FALSE(score.suspicious()) << score.utt_id << score.remark;
    EXPECT_LT(std::abs(score.deviation), 3);
  }
}

TEST(AlignScores, DeviationsAreThoseOfTheMedian) {
  auto utterances = Ordinary(0, 7);
  for (int u = 7; u < 14; ++u) utterances.push_back(Ordinary(u));
  // Likelihoods −50 … −49.4 twice: the median of 14 is the 8th, −49.7 or −49.6; half of them are within 0.2 of it.
  utterances.push_back(Ordinary(3));
  utterances.back().times.log_likelihood = -52;
  const auto scores = ScoreAlignments(utterances);
  EXPECT_NEAR(scores[3].deviation, 0.0, 1e-9);
  EXPECT_NEAR(scores[14].deviation, -2.3 / (1.4826 * 0.2), 1e-6);
  EXPECT_THAT(scores[14].remark, HasSubstr("unlike its text"));
}

TEST(AlignScores, SayWhereAPhoneIsVeryLong) {
  auto utterances = Ordinary(0, 30);
  AlignedTimes& times = utterances[20].times;
  times.phones[3].end_s += 2.0;
  for (size_t p = 4; p < times.phones.size(); ++p) {
    times.phones[p].start_s += 2.0;
    times.phones[p].end_s += 2.0;
  }
  const AlignScore score = ScoreAlignments(utterances)[20];
  EXPECT_GT(score.phone_deviation, 5);
  EXPECT_EQ(score.place_word, "TWO");
  EXPECT_DOUBLE_EQ(score.place_s, times.phones[3].start_s);
  EXPECT_THAT(score.remark, HasSubstr("'TWO' at 0.40 s is very long"));
}

TEST(AlignScores, CompareNothingWithTooFew) {
  auto utterances = Ordinary(0, 4);
  utterances[1].times.log_likelihood = -500;
  for (const AlignScore& score : ScoreAlignments(utterances)) {
    EXPECT_EQ(score.deviation, 0);
    EXPECT_EQ(score.phone_deviation, 0);
    EXPECT_FALSE(score.suspicious());
  }
}

TEST(AlignScores, NameWhatTheAlignmentItselfFound) {
  auto utterances = Ordinary(0, 12);
  utterances[0].times.unknown_words = {"ZEBRA"};
  utterances[1].times.retried = true;
  utterances[2].skipped = "too short";
  utterances[2].times = {};
  const auto scores = ScoreAlignments(utterances);
  EXPECT_EQ(scores[0].remark, "no pronunciation of ZEBRA");
  EXPECT_EQ(scores[1].remark, "found with the wide beam only");
  EXPECT_EQ(scores[2].remark, "skipped: too short");
  EXPECT_EQ(scores[3].remark, "");
  EXPECT_THAT(ToTable({scores[2]}), HasSubstr("\nu2\t0.000\t0.0000\t0.00\t0.00\t0.000\t\tskipped: too short\n"));
}

TEST(AlignScores, CountWordsInWhatIsSilent) {
  auto utterances = Ordinary(0, 12);
  // The first word of one, and its pauses; all of another.
  const TimedWord first = utterances[3].times.words[0];
  utterances[3].zeros = feat::ZeroSpans({{0.0, first.end_s}, {first.end_s + 0.5, utterances[3].times.duration_s}});
  utterances[5].zeros = feat::ZeroSpans({{0.0, utterances[5].times.duration_s}});
  const auto scores = ScoreAlignments(utterances);
  EXPECT_THAT(scores[3].remark, HasSubstr("1 word(s) stand where the audio is silent"));
  EXPECT_THAT(scores[3].remark, HasSubstr("the first at 0.20 s"));
  EXPECT_THAT(scores[5].remark, HasSubstr("2 word(s) stand where the audio is silent"));
  EXPECT_FALSE(scores[4].suspicious());
}

}  // namespace
}  // namespace antiphon::pipeline
