#include "hmm/graph/phone_ngrams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"

namespace antiphon::hmm {
namespace {

using Sequences = std::vector<std::vector<int32_t>>;

Sequences RandomSequences(uint64_t seed) {
  Rng rng(seed);
  Sequences sequences(60);
  for (auto& phones : sequences) {
    phones.resize(3 + rng.Below(20));
    int32_t before = 1;
    for (int32_t& p : phones) p = before = 1 + static_cast<int32_t>(rng.Below(2) == 0 ? before % 5 : rng.Below(5));
  }
  return sequences;
}

TEST(PhoneNgrams, AreTheSharesOfWhatWasSeen) {
  const PhoneNgrams lm = EstimatePhoneNgrams(Sequences{{1, 2}, {1, 3}, {1, 2, 1, 2}, {}}, {3, 0});
  ASSERT_EQ(lm.states[0].history, std::vector<int32_t>{0});
  ASSERT_EQ(lm.states[0].arcs.size(), 1U);
  EXPECT_EQ(lm.states[0].arcs[0].phone, 1);
  EXPECT_EQ(lm.states[0].end_probability, 0);
  const PhoneNgrams::State& begin_1 = lm.states[static_cast<size_t>(lm.states[0].arcs[0].to)];
  EXPECT_EQ(begin_1.history, (std::vector<int32_t>{0, 1}));
  ASSERT_EQ(begin_1.arcs.size(), 2U);
  EXPECT_DOUBLE_EQ(begin_1.arcs[0].probability, 2.0 / 3);
  EXPECT_EQ(begin_1.arcs[1].phone, 3);
  const PhoneNgrams::State& after_12 = lm.states[static_cast<size_t>(begin_1.arcs[0].to)];
  EXPECT_EQ(after_12.history, (std::vector<int32_t>{1, 2}));
  EXPECT_DOUBLE_EQ(after_12.end_probability, 2.0 / 3);
}

TEST(PhoneNgrams, SumToOneAndLeadToWhatIsKnownOfTheHistory) {
  const PhoneNgrams lm = EstimatePhoneNgrams(RandomSequences(1), {4, 20});
  EXPECT_EQ(std::ranges::count(lm.states, 3U, [](const auto& s) { return s.history.size(); }), 20);
  for (const PhoneNgrams::State& state : lm.states) {
    double sum = state.end_probability;
    for (const PhoneNgrams::Arc& arc : state.arcs) {
      sum += arc.probability;
      std::vector<int32_t> whole = state.history;
      whole.push_back(arc.phone);
      const auto& next = lm.states[static_cast<size_t>(arc.to)].history;
      ASSERT_LE(next.size(), whole.size());
      EXPECT_TRUE(std::equal(next.rbegin(), next.rend(), whole.rbegin()));
      // No longer history that is kept would have fitted.
      for (const PhoneNgrams::State& other : lm.states) {
        const bool fits = other.history.size() <= whole.size() &&
                          std::equal(other.history.rbegin(), other.history.rend(), whole.rbegin());
        EXPECT_TRUE(!fits || other.history.size() <= next.size());
      }
    }
    EXPECT_NEAR(sum, 1.0, 1e-12);
  }
}

TEST(PhoneNgrams, WithoutLongHistoriesAreOfOrderThree) {
  const Sequences sequences = RandomSequences(2);
  EXPECT_EQ(EstimatePhoneNgrams(sequences, {4, 0}).states, EstimatePhoneNgrams(sequences, {3, 0}).states);
}

TEST(PhoneNgrams, KeepTheLongHistoriesThatAreWorthMost) {
  const Sequences sequences = RandomSequences(3);
  double before = EstimatePhoneNgrams(sequences, {4, 0}).log_likelihood;
  double last_gain = 1e9;
  for (const int kept : {10, 20, 40, 80}) {
    const double now = EstimatePhoneNgrams(sequences, {4, kept}).log_likelihood;
    EXPECT_GT(now, before);
    const double gain = (now - before) / (kept == 10 ? 10 : kept / 2);
    EXPECT_LT(gain, last_gain) << kept;
    last_gain = gain;
    before = now;
  }
}

TEST(PhoneNgrams, RefuseToBeMadeOfNothing) { EXPECT_THROW(EstimatePhoneNgrams(Sequences{{}}, {}), InputError); }

}  // namespace
}  // namespace antiphon::hmm
