#include "pipeline/weight_tuning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/file.h"
#include "decode/lattice/lattice_text.h"
#include "decode/lattice/weight_search.h"
#include "decode/random_lattice.h"
#include "pipeline/tuned_hypotheses.h"
#include "temporary_folder.h"

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

// "B" is less likely than not at the end of the one piece and at the begin of the other; somewhere between "A" and "C"
// it is likely. Weights are chosen by what each piece says, and so is what they give.
TEST(TunedHypotheses, AreChosenPieceByPiece) {
  const auto arc = [](int32_t to, int32_t word, double probability) {
    return decode::LatticeArc{to, word, {-std::log(probability), 0.0}, {}};
  };
  decode::Lattice first, second;
  first.states.resize(3);
  first.states[0].arcs = {arc(1, 1, 1.0)};
  first.states[1].arcs = {arc(2, 2, 0.4)};
  first.states[1].is_final = true;
  first.states[1].final_cost = {-std::log(0.6), 0.0};
  first.states[2].is_final = true;
  second.states.resize(3);
  second.states[0].arcs = {arc(1, 2, 0.4), arc(2, 3, 0.6)};
  second.states[1].arcs = {arc(2, 3, 1.0)};
  second.states[2].is_final = true;
  decode::LatticeTextInPieces lattices("long");
  std::string text = lattices.Add(first);
  text += lattices.Add(second);
  text += lattices.Finish();

  const testing::TemporaryFolder folder;
  WriteFileAtomically(folder / "words.txt", "<eps> 0\nA 1\nB 2\nC 3\n");
  WriteFileAtomically(folder / "text", "long A B C\n");
  WriteFileAtomically(folder / "lattices.gz", text);
  const ChosenWeights weights{.lm_weight = 1.0, .word_penalty = 0.0, .risk_scale = 1.0};
  WriteChosenWeights(folder / "weights.toml", weights, "chosen");
  const score::Transcripts tuned = TunedHypotheses(folder.path(), folder.path());
  EXPECT_EQ(tuned.words.at("long"), (std::vector<std::string>{"A", "C"}));
  const std::vector<decode::Lattice> pieces = {first, second};
  EXPECT_EQ(decode::WordErrors(pieces, std::vector<int32_t>{1, 3}, weights.weights()), 0);
}

}  // namespace
}  // namespace antiphon::pipeline
