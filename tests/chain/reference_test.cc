#include "chain/reference.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "chain/chain_model.h"
#include "toy_chain.h"

namespace antiphon::chain {
namespace {

std::vector<int32_t> Phones(const std::vector<hmm::PhoneSegment>& segments) {
  std::vector<int32_t> phones;
  for (const auto& segment : segments) phones.push_back(segment.phone);
  return phones;
}

TEST(Reference, OfAnAlignmentAndBackHasTheSamePhones) {
  const hmm::HmmModel model = testing::ToyModel();
  Rng rng(2);
  for (int n = 0; n < 200; ++n) {
    // Some phones are shorter than the way from output to output.
    Reference reference;
    int32_t end = 0;
    for (size_t p = 0; p < 12; ++p) {
      reference.phones.push_back(1 + static_cast<int32_t>(rng.Below(4)));
      reference.ends.push_back(end += 1 + static_cast<int32_t>(rng.Below(7)));
    }
    for (int shift = 0; shift < 3; ++shift) {
      const auto ends = OutputEnds(reference, shift, 3);
      const int outputs = NumOutputs(reference.num_frames(), shift, 3);
      ASSERT_EQ(ends.has_value(), outputs >= 12);
      if (!ends) continue;
      const std::vector<int32_t> alignment = AlignmentOf(model, reference.phones, *ends);
      EXPECT_EQ(static_cast<int>(alignment.size()), outputs);
      EXPECT_EQ(Phones(model.SplitToPhones(alignment)), reference.phones);
      EXPECT_EQ(ReferenceOf(model, alignment), (Reference{reference.phones, *ends}));
      // Where every phone is long enough, boundaries are those of the alignment.
      bool all_long = true;
      for (size_t i = 0; i < 12; ++i) all_long = all_long && reference.ends[i] - (i ? reference.ends[i - 1] : 0) >= 3;
      for (size_t i = 0; all_long && i < 12; ++i) {
        EXPECT_LT((*ends)[i] - 1, (reference.ends[i] - shift + 2) / 3);
        EXPECT_GE((*ends)[i] * 3 + shift, reference.ends[i]);
      }
    }
  }
}

TEST(Reference, ComesBackFromPairsAndRefusesOthers) {
  const Reference reference = testing::TimedReference({1, 2, 2, 4}, 1);
  EXPECT_EQ(FromPairs(ToPairs(reference), 4), reference);
  EXPECT_EQ(FromPairs({}, 4), Reference{});
  for (const std::vector<int32_t>& bad :
       {std::vector<int32_t>{1}, {5, 3}, {0, 3}, {1, 0}, {1, -2}, {1, INT32_MAX, 2, INT32_MAX}}) {
    EXPECT_THROW(FromPairs(bad, 4), InputError);
  }
}

TEST(ChainModel, TellsEntryFromLoopAndLeftNeighboursApart) {
  // Features say which phone, whether it was just entered, and whether the left neighbour of 3 is 2.
  const hmm::PhoneSet phones({"A", "B", "C"}, {"SIL"}, false);
  Rng rng(4);
  hmm::TreeStats stats;
  for (int n = 0; n < 200; ++n) {
    Reference reference;
    int32_t end = 0;
    for (size_t p = 0; p < 10; ++p) {
      reference.phones.push_back(1 + static_cast<int32_t>(rng.Below(4)));
      reference.ends.push_back(end += 9);
    }
    Matrix features(end, 3);
    for (int64_t t = 0; t < end; ++t) {
      const auto p = static_cast<size_t>(t / 9);
      features(t, 0) = static_cast<float>(reference.phones[p] + 0.1 * rng.Normal());
      features(t, 1) = static_cast<float>((t % 9 < 3 ? 3 : 0) + 0.1 * rng.Normal());
      features(t, 2) = static_cast<float>((reference.phones[p] == 3 && p > 0 && reference.phones[p - 1] == 2 ? 5 : 0) +
                                          0.1 * rng.Normal());
    }
    ASSERT_TRUE(AddChainTreeStats(reference, features, 0, 3, &stats));
  }
  ASSERT_FALSE(AddChainTreeStats({{1, 2}, {1, 2}}, Matrix(2, 3), 0, 3, &stats));
  hmm::TreeReport report;
  const hmm::HmmModel model = BuildChainModel(phones, stats, {10, 20}, &report);
  EXPECT_EQ(model.context_width(), 2);
  EXPECT_TRUE(model.topology().IsChain());
  EXPECT_EQ(model.num_pdfs(), 10);
  for (int32_t phone = 1; phone <= 4; ++phone) {
    for (int32_t left = 0; left <= 4; ++left) {
      const int32_t window[] = {left, phone};
      EXPECT_NE(model.tree().Pdf(window, 0), model.tree().Pdf(window, 1));
      const int32_t usual[] = {1, phone};
      EXPECT_EQ(model.tree().Pdf(window, 0) == model.tree().Pdf(usual, 0), phone != 3 || left != 2) << phone << left;
    }
  }
}

TEST(ChainModel, HasMoreLeavesOfMoreSpeech) {
  const hmm::PhoneSet phones({"A", "B", "C"}, {"SIL"}, false);
  int before = 0;
  for (const int utterances : {60, 2000}) {
    Rng rng(5);
    hmm::TreeStats stats;
    for (int n = 0; n < utterances; ++n) {
      const Reference reference = testing::TimedReference({1, 2, 3, 4, 2, 4, 3}, n);
      Matrix features(reference.num_frames(), 2);
      for (int64_t i = 0; i < features.size(); ++i) features.data()[i] = static_cast<float>(rng.Normal());
      ASSERT_TRUE(AddChainTreeStats(reference, features, 0, 3, &stats));
    }
    hmm::TreeReport report;
    BuildChainModel(phones, stats, {}, &report);
    EXPECT_GE(report.num_leaves, 8);
    EXPECT_GE(report.num_splits, before);
    before = report.num_splits;
  }
}

}  // namespace
}  // namespace antiphon::chain
