#include "decode/graph/constrained_graph.h"

#include <gtest/gtest.h>

#include <limits>

#include "decode/search/decoder.h"
#include "decode/search/matrix_scores.h"

namespace antiphon::decode {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// A loop over words 1 (transition-ids 1 2) and 2 (transition-id 3), each with a self-loop on its last state.
Graph WordLoop() {
  const std::vector<GraphArc> arcs = {
      {1, 1, 0.5f, 1}, {3, 2, 0.7f, 3},  // 0: start of a word
      {2, 0, 0.0f, 2},                   // 1
      {0, 0, 0.0f, 0}, {2, 0, 0.1f, 2},  // 2: end of word 1
      {0, 0, 0.0f, 0}, {3, 0, 0.2f, 3},  // 3: end of word 2
  };
  const std::vector<GraphState> states = {{0, 0, 2, 0.0f}, {2, 2, 3, kInf}, {3, 4, 5, kInf}, {5, 6, 7, kInf}};
  return Graph(states, arcs, 0, {"<eps>", "one", "two"}, {-1, 0, 1, 2});
}

Matrix Scores(int frames) {
  Matrix m(frames, 3);
  for (int t = 0; t < frames; ++t) {
    for (int k = 0; k < 3; ++k) m(t, k) = static_cast<float>((7 * t + 3 * k) % 5);
  }
  return m;
}

LatticePath Best(const Graph& graph, int frames) {
  DecoderOptions options;
  options.beam = 1e6;
  options.acoustic_scale = 1;
  Decoder decoder(graph, options);
  MatrixScores scores(Scores(frames));
  decoder.Advance(scores);
  decoder.Finish();
  return decoder.BestPath();
}

TEST(ConstrainedGraph, SaysTheWordsAndNothingElse) {
  const Graph graph = WordLoop();
  for (const std::vector<int32_t>& words : {std::vector<int32_t>{1}, std::vector<int32_t>{2, 1},
                                            std::vector<int32_t>{2, 2, 1}, std::vector<int32_t>{1, 2}}) {
    const auto constrained = ConstrainToWords(graph, words);
    ASSERT_TRUE(constrained.has_value());
    EXPECT_EQ(Best(*constrained, 7).words, words);
  }
}

// The best path of all is the best one of its own words, at the same cost.
TEST(ConstrainedGraph, KeepsTheCosts) {
  const Graph graph = WordLoop();
  const LatticePath best = Best(graph, 9);
  const auto constrained = ConstrainToWords(graph, best.words);
  ASSERT_TRUE(constrained.has_value());
  const LatticePath again = Best(*constrained, 9);
  EXPECT_EQ(again.alignment, best.alignment);
  EXPECT_NEAR(again.cost.graph, best.cost.graph, 1e-5);
  EXPECT_NEAR(again.cost.acoustic, best.cost.acoustic, 1e-5);
}

TEST(ConstrainedGraph, IsNothingForWordsThatTheGraphCannotSay) {
  EXPECT_FALSE(ConstrainToWords(WordLoop(), std::vector<int32_t>{1, 3}).has_value());
}

}  // namespace
}  // namespace antiphon::decode
