#include "decode/lattice/confidence.h"

#include <gtest/gtest.h>

#include <cmath>

namespace antiphon::decode {
namespace {

LatticeArc Arc(int32_t next, int32_t word, double probability) {
  return {next, word, {-std::log(probability), 0.0}, {}};
}

// 1 (2: 0.7 | 3: 0.2 | nothing but 5: 0.1) 4
Lattice ToyLattice() {
  Lattice lattice;
  lattice.states.resize(4);
  lattice.states[0].arcs = {Arc(1, 1, 1.0)};
  lattice.states[1].arcs = {Arc(2, 2, 0.7), Arc(2, 3, 0.2), Arc(3, 4, 0.1)};
  lattice.states[2].arcs = {Arc(3, 4, 1.0)};
  lattice.states[3].is_final = true;
  return lattice;
}

TEST(Confidence, IsThePosteriorOfAWordAtItsPlace) {
  const std::vector<int32_t> best = {1, 2, 4};
  const auto confidence = WordConfidences(ToyLattice(), {1.0, 0.0}, best);
  ASSERT_EQ(confidence.size(), 3U);
  EXPECT_NEAR(confidence[0], 1.0, 1e-9);
  EXPECT_NEAR(confidence[1], 0.7, 1e-9);
  EXPECT_NEAR(confidence[2], 1.0, 1e-9);
}

TEST(Confidence, FollowsTheWeights) {
  Lattice lattice = ToyLattice();
  lattice.states[1].arcs[1].cost.acoustic = -20.0;  // makes word 3 better
  const std::vector<int32_t> best = {1, 2, 4};
  EXPECT_NEAR(WordConfidences(lattice, {0.0, 0.0}, best)[1], 0.7, 1e-9);
  EXPECT_LT(WordConfidences(lattice, {1.0, 0.0}, best)[1], 1e-6);
}

TEST(Confidence, OfAnEmptyHypothesisIsEmpty) { EXPECT_TRUE(WordConfidences(ToyLattice(), {1.0, 0.0}, {}).empty()); }

// A word that only stands elsewhere gives no confidence here.
TEST(Confidence, IgnoresTheSameWordAtAnotherPlace) {
  Lattice lattice;
  lattice.states.resize(5);
  lattice.states[0].arcs = {Arc(1, 7, 0.5), Arc(2, 8, 0.5)};
  lattice.states[1].arcs = {Arc(3, 9, 1.0)};
  lattice.states[2].arcs = {Arc(3, 9, 1.0)};
  lattice.states[3].arcs = {Arc(4, 7, 1.0)};
  lattice.states[4].is_final = true;
  const std::vector<int32_t> best = {7, 9, 7};
  const auto confidence = WordConfidences(lattice, {1.0, 0.0}, best);
  EXPECT_NEAR(confidence[0], 0.5, 1e-9);
  EXPECT_NEAR(confidence[1], 1.0, 1e-9);
  EXPECT_NEAR(confidence[2], 1.0, 1e-9);
}

}  // namespace
}  // namespace antiphon::decode
