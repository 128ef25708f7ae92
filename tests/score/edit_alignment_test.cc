#include "score/edit_alignment.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

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
  rc::check([] {
    const Tokens ref = RandomTokens(6), hyp = RandomTokens(6);
    const ErrorCounts counts = AlignTokens(ref, hyp).counts;
    const Best best = BruteForce(ref, 0, hyp, 0);
    RC_ASSERT(counts.errors() == best.errors);
    RC_ASSERT(counts.correct == best.correct);
  });
}

TEST(EditAlignment, IsConsistentAndSymmetric) {
  rc::check([] {
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
  });
}

}  // namespace
}  // namespace antiphon::score
