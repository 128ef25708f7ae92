#include "pipeline/weight_tuning.h"

#include <gtest/gtest.h>

#include "decode/random_lattice.h"

namespace antiphon::pipeline {
namespace {

// What is kept of many lattices must be small, and whole by itself.
TEST(WeightTuning, KeepsNoAlignments) {
  const decode::Lattice lattice = decode::RandomLattice(3);
  const decode::Lattice needed = WeightTuning::Needed(lattice);
  EXPECT_EQ(needed.alignments.capacity(), 0U);
  const decode::LatticeWeights weights{0.1, 0.5};
  const decode::LatticePath path = decode::BestPath(needed, weights);
  EXPECT_EQ(path.words, decode::BestPath(lattice, weights).words);
  EXPECT_TRUE(path.alignment.empty());
}

}  // namespace
}  // namespace antiphon::pipeline
