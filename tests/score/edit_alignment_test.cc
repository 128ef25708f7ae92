#include "score/edit_alignment.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/random.h"

namespace antiphon::score {
namespace {

using Tokens = std::vector<int32_t>;

struct Best {
  int64_t errors;
  int64_t correct;
};

// Plain recursion over the definition.
Best BruteForce(const Tokens& ref, size_t r, const Tokens& hyp, size_t h) {
  if (r == ref.size()) return {static_cast<int64_t>(hyp.size() - h), 0};
  if (h == hyp.size()) return {static_cast<int64_t>(ref.size() - r), 0};
  const bool same = ref[r] == hyp[h];
  Best diagonal = BruteForce(ref, r + 1, hyp, h + 1);
  diagonal.errors += same ? 0 : 1;
  diagonal.correct += same ? 1 : 0;
  Best best = diagonal;
  for (Best other : {BruteForce(ref, r + 1, hyp, h), BruteForce(ref, r, hyp, h + 1)}) {
    ++other.errors;
    if (other.errors < best.errors || (other.errors == best.errors && other.correct > best.correct)) best = other;
  }
  return best;
}

Tokens RandomTokens(int max_length) {
  const auto length = *rc::gen::inRange(0, max_length + 1);
  return *rc::gen::container<Tokens>(static_cast<size_t>(length), rc::gen::inRange<int32_t>(0, 3));
}

TEST(EditAlignment, HandCases) {
  const auto counts = [](Tokens ref, Tokens hyp) { return AlignTokens(ref, hyp).counts; };
  EXPECT_EQ(counts({}, {}), (ErrorCounts{0, 0, 0, 0}));
  EXPECT_EQ(counts({1, 2}, {}), (ErrorCounts{0, 0, 2, 0}));
  EXPECT_EQ(counts({}, {1, 2, 3}), (ErrorCounts{0, 0, 0, 3}));
  EXPECT_EQ(counts({1, 2, 3}, {1, 2, 3}), (ErrorCounts{3, 0, 0, 0}));
  EXPECT_EQ(counts({1, 2, 3}, {1, 4, 3}), (ErrorCounts{2, 1, 0, 0}));
  EXPECT_EQ(counts({1, 2, 3}, {1, 3}), (ErrorCounts{2, 0, 1, 0}));
  // Two substitutions cost as much as a deletion and an insertion; the one correct token decides.
  EXPECT_EQ(counts({1, 2}, {2, 3}), (ErrorCounts{1, 0, 1, 1}));
}

TEST(EditAlignment, RateOfAnEmptyReference) {
  EXPECT_EQ((ErrorCounts{}).Rate(), 0.0);
  EXPECT_TRUE(std::isinf((ErrorCounts{0, 0, 0, 2}).Rate()));
}

TEST(EditAlignment, EqualsBruteForce) {
  EXPECT_TRUE(rc::check([] {
    const Tokens ref = RandomTokens(6), hyp = RandomTokens(6);
    const ErrorCounts counts = AlignTokens(ref, hyp).counts;
    const Best best = BruteForce(ref, 0, hyp, 0);
    RC_ASSERT(counts.errors() == best.errors);
    RC_ASSERT(counts.correct == best.correct);
  }));
}

TEST(EditAlignment, IsConsistentAndSymmetric) {
  EXPECT_TRUE(rc::check([] {
    const Tokens ref = RandomTokens(30), hyp = RandomTokens(30);
    const EditAlignment forward = AlignTokens(ref, hyp), backward = AlignTokens(hyp, ref);
    RC_ASSERT(forward.counts.reference_length() == static_cast<int64_t>(ref.size()));
    RC_ASSERT(forward.counts.hypothesis_length() == static_cast<int64_t>(hyp.size()));
    RC_ASSERT(forward.counts.errors() == backward.counts.errors());
    RC_ASSERT(forward.counts.deletions == backward.counts.insertions);
    size_t r = 0, h = 0;
    for (const Edit edit : forward.edits) {
      if (edit == Edit::kCorrect || edit == Edit::kSubstitution)
        RC_ASSERT((ref[r] == hyp[h]) == (edit == Edit::kCorrect));
      if (edit != Edit::kInsertion) ++r;
      if (edit != Edit::kDeletion) ++h;
    }
    RC_ASSERT(r == ref.size() && h == hyp.size());
  }));
}

// With all edits in one table; of equal costs, deletion before insertion before the diagonal.
std::vector<Edit> FromOneTable(const Tokens& ref, const Tokens& hyp) {
  using Cost = std::pair<int64_t, int64_t>;  // errors, minus correct tokens
  std::vector<std::vector<Cost>> cost(ref.size() + 1, std::vector<Cost>(hyp.size() + 1));
  std::vector<std::vector<Edit>> last(ref.size() + 1, std::vector<Edit>(hyp.size() + 1));
  for (size_t r = 0; r <= ref.size(); ++r) {
    for (size_t h = 0; h <= hyp.size(); ++h) {
      if (r == 0 && h == 0) continue;
      std::vector<std::pair<Cost, Edit>> ways;
      if (r > 0) ways.push_back({{cost[r - 1][h].first + 1, cost[r - 1][h].second}, Edit::kDeletion});
      if (h > 0) ways.push_back({{cost[r][h - 1].first + 1, cost[r][h - 1].second}, Edit::kInsertion});
      if (r > 0 && h > 0) {
        const bool same = ref[r - 1] == hyp[h - 1];
        const Cost before = cost[r - 1][h - 1];
        ways.push_back({{before.first + (same ? 0 : 1), before.second - (same ? 1 : 0)},
                        same ? Edit::kCorrect : Edit::kSubstitution});
      }
      const auto best =
          std::min_element(ways.begin(), ways.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      std::tie(cost[r][h], last[r][h]) = *best;
    }
  }
  std::vector<Edit> edits;
  for (size_t r = ref.size(), h = hyp.size(); r > 0 || h > 0;) {
    edits.push_back(last[r][h]);
    if (edits.back() != Edit::kInsertion) --r;
    if (edits.back() != Edit::kDeletion) --h;
  }
  std::reverse(edits.begin(), edits.end());
  return edits;
}

// Texts of several bands: the length of a whole recording.
TEST(EditAlignment, OfLongTextsIsTheSameInBands) {
  Rng rng(3);
  for (const auto& [ref_length, hyp_length] : std::vector<std::pair<int, int>>{
           {256, 200}, {257, 300}, {512, 512}, {513, 40}, {1000, 900}, {300, 1200}, {900, 0}}) {
    Tokens ref, hyp;
    for (int i = 0; i < ref_length; ++i) ref.push_back(static_cast<int32_t>(rng.Below(6)));
    for (int i = 0; i < hyp_length; ++i) hyp.push_back(static_cast<int32_t>(rng.Below(6)));
    EXPECT_EQ(AlignTokens(ref, hyp).edits, FromOneTable(ref, hyp)) << ref_length << " × " << hyp_length;
  }
}

}  // namespace
}  // namespace antiphon::score
