#include "decode/search/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "decode/search/matrix_scores.h"
#include "decode/toy_search.h"

namespace antiphon::decode {
namespace {

INSTANTIATE_TEST_SUITE_P(Seeds, ToySearch, ::testing::Range<uint64_t>(0, 40));
INSTANTIATE_TEST_SUITE_P(Seeds, Search, ::testing::Range<uint64_t>(0, 8));

TEST_P(ToySearch, WithoutBeamFindsEveryPathOfEnumeration) {
  const auto expected = Enumerate(graph_, scores_);
  const Decoded decoded = Decode(graph_, scores_, Wide());
  if (expected.empty()) {
    EXPECT_FALSE(decoded.reached_final);
    return;
  }
  double best = kInfinity;
  for (const auto& [words, cost] : expected) best = std::min(best, cost);
  EXPECT_NEAR(decoded.best.cost.Total(kScale), best, 1e-3);
  EXPECT_NEAR(expected.at(decoded.best.words), best, 1e-3);
  EXPECT_EQ(decoded.best.alignment.size(), 5U);
  EXPECT_NEAR(decoded.best.cost.acoustic, Recost(graph_, scores_, decoded.best), 1e-3);
  ExpectSamePaths(AllPaths(decoded.raw), expected, 1e-3);
}

TEST_P(ToySearch, DeterminisedLatticeHasEachWordSequenceOnce) {
  const Decoded decoded = Decode(graph_, scores_, Wide());
  const Lattice lattice = Determinize(decoded.raw, {kScale, 1e6, 1000000});
  ExpectSamePaths(AllPaths(lattice), AllPaths(decoded.raw), 1e-3);
  for (const LatticeState& state : lattice.states) {
    std::map<int32_t, int> words;
    for (const LatticeArc& arc : state.arcs) EXPECT_EQ(++words[arc.word], 1);
    EXPECT_EQ(words.count(0), 0U);
  }
  const auto paths = NBest(lattice, kWeights, 100);
  std::map<Words, int> seen;
  for (size_t i = 0; i < paths.size(); ++i) {
    EXPECT_EQ(++seen[paths[i].words], 1);
    EXPECT_EQ(paths[i].alignment.size(), 5U);
    EXPECT_NEAR(paths[i].cost.acoustic, Recost(graph_, scores_, paths[i]), 1e-3);
    if (i == 0) continue;
    EXPECT_GE(paths[i].cost.Total(kScale), paths[i - 1].cost.Total(kScale) - 1e-9);
  }
}

TEST_P(ToySearch, LatticeBeamKeepsExactlyWhatLiesWithin) {
  const auto expected = Enumerate(graph_, scores_);
  if (expected.empty()) return;
  double best = kInfinity;
  for (const auto& [words, cost] : expected) best = std::min(best, cost);
  for (const double beam : {0.5, 2.0, 4.0}) {
    DecoderOptions options = Wide();
    options.lattice_beam = beam;
    std::map<Words, double> within;
    for (const auto& [words, cost] : expected) {
      if (cost <= best + beam) within.emplace(words, cost);
    }
    const Lattice lattice = Determinize(Decode(graph_, scores_, options).raw, {kScale, beam, 1000000});
    // Arcs of paths within the beam also make up some beyond it.
    auto found = AllPaths(lattice);
    std::erase_if(found, [&](const auto& path) { return path.second > best + beam; });
    ExpectSamePaths(found, within, 1e-3);
  }
}

bool SameLattice(const Lattice& a, const Lattice& b) {
  if (a.states.size() != b.states.size() || a.NumArcs() != b.NumArcs()) return false;
  for (size_t s = 0; s < a.states.size(); ++s) {
    if (a.states[s].is_final != b.states[s].is_final || a.states[s].arcs.size() != b.states[s].arcs.size())
      return false;
    for (size_t i = 0; i < a.states[s].arcs.size(); ++i) {
      const LatticeArc &x = a.states[s].arcs[i], &y = b.states[s].arcs[i];
      if (x.next_state != y.next_state || x.word != y.word || x.cost.graph != y.cost.graph ||
          x.cost.acoustic != y.cost.acoustic) {
        return false;
      }
    }
  }
  return true;
}

TEST_P(Search, PruningAsItGoesChangesNothing) {
  DecoderOptions often = options_, never = options_;
  often.prune_interval = 1;
  never.prune_interval = 1000000;
  const Decoded a = Decode(graph_, scores_, options_), b = Decode(graph_, scores_, often),
                c = Decode(graph_, scores_, never);
  EXPECT_GT(a.raw.NumArcs(), 100U);
  EXPECT_TRUE(SameLattice(a.raw, c.raw));
  EXPECT_TRUE(SameLattice(b.raw, c.raw));
}

TEST_P(Search, ChunksGiveTheSameAsAllAtOnce) {
  const Decoded whole = Decode(graph_, scores_, options_);
  for (const int chunk : {1, 7, 64}) {
    const Decoded parts = Decode(graph_, scores_, options_, chunk);
    EXPECT_TRUE(SameLattice(whole.raw, parts.raw));
    EXPECT_EQ(whole.best.words, parts.best.words);
    EXPECT_EQ(whole.best.alignment, parts.best.alignment);
  }
}

// Gives scores one by one, and only those that were asked for.
class LazyScores : public ScoreSource {
 public:
  explicit LazyScores(const Matrix& scores) : scores_(scores) {}
  int num_pdfs() const override { return static_cast<int>(scores_.cols()); }
  int num_frames_ready() const override { return static_cast<int>(scores_.rows()); }
  bool IsLastFrame(int frame) const override { return frame == num_frames_ready() - 1; }
  std::span<const float> DenseFrame(int) override { return {}; }
  void Request(int, std::span<const int32_t> pdf_ids) override { requested_.assign(pdf_ids.begin(), pdf_ids.end()); }
  float LogLikelihood(int frame, int32_t pdf_id) override {
    EXPECT_TRUE(std::find(requested_.begin(), requested_.end(), pdf_id) != requested_.end());
    return scores_(frame, pdf_id);
  }

 private:
  const Matrix& scores_;
  std::vector<int32_t> requested_;
};

TEST_P(Search, LazyScoresGiveTheSameLattice) {
  LazyScores lazy(scores_);
  EXPECT_TRUE(SameLattice(Decode(graph_, lazy, options_).raw, Decode(graph_, scores_, options_).raw));
}

TEST_P(Search, LatticeAgreesWithTheBestPath) {
  const Decoded decoded = Decode(graph_, scores_, options_);
  const LatticePath raw = BestPath(decoded.raw, kWeights);
  const Lattice lattice = Determinize(decoded.raw, {kScale, options_.lattice_beam, 1000000});
  const LatticePath best = BestPath(lattice, kWeights);
  EXPECT_EQ(raw.words, decoded.best.words);
  EXPECT_EQ(best.words, decoded.best.words);
  EXPECT_EQ(best.alignment, decoded.best.alignment);
  EXPECT_NEAR(best.cost.Total(kScale), decoded.best.cost.Total(kScale), 1e-2);
  EXPECT_NEAR(best.cost.acoustic, Recost(graph_, scores_, decoded.best), 1e-2);
  // The sum over all paths is at least the best one.
  EXPECT_LE(TotalCost(lattice, kWeights), best.cost.Total(kScale) + 1e-6);
}

TEST_P(Search, OracleErrorsFallWithTheLatticeBeam) {
  Rng rng(GetParam());
  Words reference = Decode(graph_, scores_, options_).best.words;
  for (int32_t& word : reference) {
    if (rng.Uniform() < 0.3) word = static_cast<int32_t>(1 + rng.Below(50));
  }
  int64_t previous = std::numeric_limits<int64_t>::max();
  for (const double beam : {0.0, 1.0, 2.0, 4.0}) {
    options_.lattice_beam = beam;
    const Lattice lattice = Determinize(Decode(graph_, scores_, options_).raw, {kScale, beam, 1000000});
    const int64_t errors = OracleErrors(lattice, reference);
    EXPECT_LE(errors, previous);
    previous = errors;
  }
}

TEST_P(Search, RestartForgetsTheLastUtterance) {
  const Decoded fresh = Decode(graph_, scores_, options_);
  Decoder decoder(graph_, options_);
  MatrixScores other(RandomToyScores(99, 60, 30)), source(scores_);
  decoder.Advance(other);
  decoder.Restart();
  decoder.Advance(source);
  decoder.Finish();
  EXPECT_TRUE(SameLattice(decoder.RawLattice(), fresh.raw));
}

TEST_P(Search, WiderBeamsAreNeverWorse) {
  double previous = kInfinity;
  for (const double beam : {4.0, 8.0, 1e6}) {
    DecoderOptions options = Wide();
    options.beam = beam;
    options.lattice_beam = 1;
    const Decoded decoded = Decode(graph_, scores_, options);
    if (!decoded.reached_final) continue;
    const double cost = decoded.best.cost.Total(kScale);
    EXPECT_LE(cost, previous + 1e-2);
    previous = cost;
  }
  EXPECT_LT(previous, kInfinity);
}

TEST(Decoder, GivesNothingForNoFrames) {
  const Graph graph = RandomGraph(1, {});
  const Decoded decoded = Decode(graph, Matrix(0, 4), Wide());
  EXPECT_TRUE(decoded.best.words.empty());
  EXPECT_TRUE(decoded.raw.empty());
  EXPECT_TRUE(Determinize(decoded.raw, {}).empty());
}

TEST(Decoder, RefusesScoresThatDoNotFit) {
  const Graph graph = RandomGraph(1, {});
  EXPECT_THROW(Decode(graph, Matrix(3, 5), Wide()), ShapeError);
  Matrix broken(3, 4);
  for (float& value : broken.Row(1)) value = std::nanf("");
  EXPECT_THROW(Decode(graph, broken, Wide()), InputError);
}

// 0 -(a)-> 1 (end), and 0 -(b)-> 2 with a loop: only the worse way takes more than one frame.
TEST(Decoder, GoesOnWhereTheBestHypothesisEnds) {
  const float never = static_cast<float>(kInfinity);
  const std::vector<GraphState> states = {{0, 0, 2, never}, {2, 2, 2, 0.0F}, {2, 2, 3, 0.0F}};
  const std::vector<GraphArc> arcs = {{1, 1, 0.0F, 1}, {2, 2, 50.0F, 2}, {2, 0, 0.0F, 2}};
  const Graph graph(states, arcs, 0, {"<eps>", "a", "b"}, {0, 0, 1});
  DecoderOptions options = Wide();
  options.beam = 60;
  options.max_active = 1;
  options.acoustic_scale = 1;
  const Matrix scores(4, 2);
  EXPECT_EQ(Decode(graph, scores, options).best.words, Words{2});
  // One sentence of one frame, and more frames than that.
  const Graph single({{0, 0, 1, never}, {1, 1, 1, 0.0F}}, {{1, 1, 0.0F, 1}}, 0, {"<eps>", "a"}, {0, 0});
  EXPECT_THROW(Decode(single, Matrix(4, 1), options), InputError);
}

TEST(Decoder, KeepsPrecisionInLongUtterances) {
  const Graph graph = RandomGraph(3, {});
  Matrix scores = RandomToyScores(4, 20000, 4);
  for (int t = 0; t < 20000; ++t) {
    for (float& value : scores.Row(t)) value -= 2000.0F;
  }
  DecoderOptions options = Wide();
  options.beam = 20;
  options.lattice_beam = 0.1;
  const LatticePath best = Decode(graph, scores, options).best;
  EXPECT_NEAR(best.cost.acoustic / Recost(graph, scores, best), 1.0, 1e-6);
}

TEST(Graph, RefusesDamage) {
  const std::vector<GraphState> states = {{0, 0, 1, 0.0F}};
  const auto make = [&](GraphArc arc) { return Graph(states, {arc}, 0, {"<eps>", "a"}, {0, 0}); };
  EXPECT_NO_THROW(make({1, 1, 0.0F, 0}));
  EXPECT_THROW(make({1, 1, 0.0F, 1}), InputError);
  EXPECT_THROW(make({1, 2, 0.0F, 0}), InputError);
  EXPECT_THROW(make({2, 1, 0.0F, 0}), InputError);
  EXPECT_THROW(make({0, 1, 0.0F, 0}), InputError);
  EXPECT_THROW(make({1, 1, std::nanf(""), 0}), InputError);
}

}  // namespace
}  // namespace antiphon::decode
