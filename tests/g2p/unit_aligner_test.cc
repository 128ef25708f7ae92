// Cuts of words into units, against enumeration of all cuts.
#include "g2p/unit_aligner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace antiphon::g2p {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Number of cuts of so many letters and phones: one letter with up to `most` phones, or two letters with one phone.
double Cuts(int letters, int phones, int most) {
  if (letters == 0) return phones == 0 ? 1 : 0;
  double cuts = letters >= 2 && phones >= 1 ? Cuts(letters - 2, phones - 1, most) : 0;
  for (int b = 0; b <= std::min(most, phones); ++b) cuts += Cuts(letters - 1, phones - b, most);
  return cuts;
}

SpellingPair Pair(int letters, int phones) {
  SpellingPair pair;
  for (int i = 0; i < letters; ++i) pair.letters.push_back(i % 5);
  for (int j = 0; j < phones; ++j) pair.phones.push_back(j % 7);
  return pair;
}

TEST(UnitAligner, CountsAllCuts) {
  // In the first iteration all units have the weight 1.
  for (const auto& [letters, phones] : std::vector<std::pair<int, int>>{{1, 1}, {3, 2}, {4, 8}, {7, 5}, {9, 0}}) {
    const std::vector<SpellingPair> pairs = {Pair(letters, phones)};
    const UnitAlignment alignment = AlignUnits(pairs, {.iterations = 1}, 1);
    EXPECT_NEAR(alignment.log_likelihood, std::log(Cuts(letters, phones, 2)), 1e-9) << letters << " " << phones;
  }
}

TEST(UnitAligner, LikelihoodNeverFalls) {
  std::vector<SpellingPair> pairs;
  for (int i = 1; i < 12; ++i) pairs.push_back(Pair(i, (3 * i + 1) % (2 * i)));
  double last = -1e30;
  // The first two have weights that are no probabilities.
  for (int iterations = 2; iterations < 12; ++iterations) {
    const double now = AlignUnits(pairs, {.iterations = iterations}, 1).log_likelihood;
    EXPECT_GE(now, last - 1e-9);
    last = now;
  }
}

TEST(UnitAligner, FindsTheUnitsThatMadeTheWords) {
  // Letters 0 and 1 together are phone 9, letter 2 is phones 5 6, letter 3 is silent, others themselves.
  const std::vector<SpellingPair> pairs = {
      {{0, 1}, {9}}, {{0, 1, 4}, {9, 4}}, {{4, 0, 1}, {4, 9}}, {{2}, {5, 6}},    {{2, 4}, {5, 6, 4}},
      {{4, 3}, {4}}, {{7, 3}, {7}},       {{4, 7}, {4, 7}},    {{7, 4}, {7, 4}}, {{7, 3, 4}, {7, 4}}};
  const UnitAlignment alignment = AlignUnits(pairs, {}, 2);
  const auto cut = [&](size_t pair) {
    std::vector<Unit> units;
    for (const int32_t unit : alignment.sequences[pair]) units.push_back(alignment.units[static_cast<size_t>(unit)]);
    return units;
  };
  EXPECT_THAT(cut(4), ElementsAre(Unit{{2}, {5, 6}}, Unit{{4}, {4}}));
  EXPECT_THAT(cut(7), ElementsAre(Unit{{4}, {4}}, Unit{{7}, {7}}));
  EXPECT_EQ(cut(1).back(), (Unit{{4}, {4}}));
}

TEST(UnitAligner, DoesNotDependOnThreads) {
  std::vector<SpellingPair> pairs;
  for (int i = 1; i < 40; ++i) pairs.push_back(Pair(1 + i % 9, i % 11));
  const UnitAlignment one = AlignUnits(pairs, {}, 1), three = AlignUnits(pairs, {}, 3);
  EXPECT_EQ(one.units, three.units);
  EXPECT_EQ(one.sequences, three.sequences);
  EXPECT_EQ(one.log_likelihood, three.log_likelihood);
}

TEST(UnitAligner, LeavesOutWhatCannotBeCut) {
  const std::vector<SpellingPair> pairs = {Pair(2, 5), Pair(2, 4), Pair(0, 1)};
  const UnitAlignment alignment = AlignUnits(pairs, {}, 1);
  EXPECT_THAT(alignment.sequences[0], IsEmpty());
  EXPECT_FALSE(alignment.sequences[1].empty());
  EXPECT_THAT(alignment.sequences[2], IsEmpty());
}

TEST(UnitAligner, LongWordsStayInRange) {
  const std::vector<SpellingPair> pairs = {Pair(900, 700), Pair(3, 3)};
  const UnitAlignment alignment = AlignUnits(pairs, {}, 1);
  EXPECT_TRUE(std::isfinite(alignment.log_likelihood));
  EXPECT_GE(alignment.sequences[0].size(), 450U);
}

}  // namespace
}  // namespace antiphon::g2p
