#include "decode/search/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "decode/search/matrix_scores.h"

namespace antiphon::decode {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kScale = 0.5;

struct Toy {
  int states = 6;
  int words = 3;
  int pdfs = 4;
  double epsilon_share = 0.25;
  double word_share = 0.4;
};

// Random arcs; epsilon arcs lead to higher states, so that they have no cycle.
Graph RandomGraph(uint64_t seed, const Toy& toy) {
  Rng rng(seed);
  std::vector<GraphState> states;
  std::vector<GraphArc> arcs;
  for (int s = 0; s < toy.states; ++s) {
    std::vector<GraphArc> epsilon, emitting;
    for (uint64_t n = 1 + rng.Below(3); n > 0; --n) {
      const auto cost = static_cast<float>(rng.Uniform(0.0, 2.0));
      const auto word = rng.Uniform() < toy.word_share ? static_cast<int32_t>(1 + rng.Below(toy.words)) : 0;
      if (s + 1 < toy.states && rng.Uniform() < toy.epsilon_share) {
        epsilon.push_back({0, word, cost, static_cast<int32_t>(s + 1 + rng.Below(toy.states - s - 1))});
      } else {
        emitting.push_back({static_cast<int32_t>(1 + rng.Below(2 * toy.pdfs)), word, cost,
                            static_cast<int32_t>(rng.Below(toy.states))});
      }
    }
    GraphState& state = states.emplace_back();
    state.epsilon_begin = static_cast<uint32_t>(arcs.size());
    arcs.insert(arcs.end(), epsilon.begin(), epsilon.end());
    state.emitting_begin = static_cast<uint32_t>(arcs.size());
    arcs.insert(arcs.end(), emitting.begin(), emitting.end());
    state.end = static_cast<uint32_t>(arcs.size());
    state.final_cost = rng.Uniform() < 0.5 ? static_cast<float>(rng.Uniform()) : static_cast<float>(kInfinity);
  }
  // Something can always be followed and ended.
  arcs.push_back({1, 1, 1.0F, 0});
  states.back().end = static_cast<uint32_t>(arcs.size());
  states.back().final_cost = 0.25F;
  std::vector<std::string> words = {"<eps>"};
  for (int w = 1; w <= toy.words; ++w) words.push_back("w" + std::to_string(w));
  std::vector<int32_t> pdfs(2 * toy.pdfs + 1, 0);
  for (int t = 1; t <= 2 * toy.pdfs; ++t) pdfs[t] = (t - 1) / 2;
  return Graph(std::move(states), std::move(arcs), 0, std::move(words), std::move(pdfs));
}

Matrix RandomScores(uint64_t seed, int frames, int pdfs) {
  Rng rng(seed);
  Matrix scores(frames, pdfs);
  for (int t = 0; t < frames; ++t) {
    for (float& value : scores.Row(t)) value = static_cast<float>(rng.Normal() * 3 - 5);
  }
  return scores;
}

using Words = std::vector<int32_t>;

// Every path that takes all frames, by plain recursion: best cost of each word sequence.
std::map<Words, double> Enumerate(const Graph& graph, const Matrix& scores) {
  std::map<Words, double> best;
  Words words;
  const std::function<void(int32_t, int, double)> walk = [&](int32_t state, int frame, double cost) {
    const GraphState& s = graph.states()[state];
    if (frame == scores.rows() && std::isfinite(s.final_cost)) {
      const auto [it, added] = best.emplace(words, cost + s.final_cost);
      if (!added) it->second = std::min(it->second, cost + s.final_cost);
    }
    for (uint32_t a = s.epsilon_begin; a < s.end; ++a) {
      const GraphArc& arc = graph.arcs()[a];
      const bool emits = arc.transition_id != 0;
      if (emits && frame == scores.rows()) continue;
      const double acoustic = emits ? -kScale * scores(frame, graph.pdf_of_transition()[arc.transition_id]) : 0.0;
      if (arc.word != 0) words.push_back(arc.word);
      walk(arc.next_state, frame + (emits ? 1 : 0), cost + arc.cost + acoustic);
      if (arc.word != 0) words.pop_back();
    }
  };
  walk(graph.start(), 0, 0.0);
  return best;
}

DecoderOptions Wide() {
  DecoderOptions options;
  options.beam = 1e6;
  options.lattice_beam = 1e6;
  options.acoustic_scale = kScale;
  options.max_active = 1000000;
  options.min_active = 0;
  return options;
}

struct Decoded {
  LatticePath best;
  Lattice raw;
  bool reached_final;
};

Decoded Decode(const Graph& graph, ScoreSource& scores, const DecoderOptions& options, int chunk = -1) {
  Decoder decoder(graph, options);
  if (chunk < 0) decoder.Advance(scores);
  while (chunk > 0 && decoder.num_frames() < scores.num_frames_ready()) decoder.Advance(scores, chunk);
  decoder.Finish();
  return {decoder.BestPath(), decoder.RawLattice(), decoder.ReachedFinal()};
}

Decoded Decode(const Graph& graph, const Matrix& scores, const DecoderOptions& options, int chunk = -1) {
  MatrixScores source(scores);
  return Decode(graph, source, options, chunk);
}

constexpr LatticeWeights kWeights{kScale, 0.0};

std::map<Words, double> AllPaths(const Lattice& lattice) {
  std::map<Words, double> best;
  for (const LatticePath& path : NBest(lattice, kWeights, 1000000)) {
    best.emplace(path.words, path.cost.Total(kScale));  // the first is the cheapest
  }
  return best;
}

void ExpectSamePaths(const std::map<Words, double>& a, const std::map<Words, double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y) {
    EXPECT_EQ(x->first, y->first);
    EXPECT_NEAR(x->second, y->second, tolerance);
  }
}

double Recost(const Graph& graph, const Matrix& scores, const LatticePath& path) {
  double acoustic = 0.0;
  for (size_t t = 0; t < path.alignment.size(); ++t) {
    acoustic -= scores(static_cast<int64_t>(t), graph.pdf_of_transition()[path.alignment[t]]);
  }
  return acoustic;
}

class ToySearch : public ::testing::TestWithParam<uint64_t> {
 protected:
  Graph graph_ = RandomGraph(GetParam(), {});
  Matrix scores_ = RandomScores(GetParam() + 1000, 5, 4);
};
INSTANTIATE_TEST_SUITE_P(Seeds, ToySearch, ::testing::Range<uint64_t>(0, 40));

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

// Larger graphs and realistic beams.
class Search : public ::testing::TestWithParam<uint64_t> {
 protected:
  static constexpr Toy kLarge{400, 50, 30, 0.2, 0.1};
  Graph graph_ = RandomGraph(GetParam(), kLarge);
  Matrix scores_ = RandomScores(GetParam() + 1, 120, 30);
  DecoderOptions options_ = [] {
    DecoderOptions options;
    options.beam = 8;
    options.lattice_beam = 4;
    options.acoustic_scale = kScale;
    options.max_active = 150;
    options.min_active = 20;
    return options;
  }();
};
INSTANTIATE_TEST_SUITE_P(Seeds, Search, ::testing::Range<uint64_t>(0, 8));

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
  MatrixScores other(RandomScores(99, 60, 30)), source(scores_);
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
  Matrix scores = RandomScores(4, 20000, 4);
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

// Cut where the best path is at `frame`, once `searched` frames are known.
struct InTwo {
  LatticePath before, behind;
  Lattice lattice_before, lattice_behind;
};
InTwo DecodeInTwo(const Graph& graph, const Matrix& scores, const DecoderOptions& options, int searched, int frame) {
  Decoder decoder(graph, options);
  MatrixScores first(scores);
  decoder.Advance(first, searched);
  InTwo cut;
  const PathAnchor anchor = decoder.BestAnchors()[static_cast<size_t>(frame)];
  cut.lattice_before = decoder.CutBefore(frame, anchor);
  cut.before = BestPath(cut.lattice_before, kWeights);
  EXPECT_EQ(static_cast<int>(cut.before.words.size()), anchor.num_words);
  EXPECT_EQ(decoder.num_frames(), searched - frame);
  Matrix rest(scores.rows() - frame, scores.cols());
  std::copy(scores.Row(frame).data(), scores.data() + scores.size(), rest.data());
  MatrixScores second(std::move(rest));
  decoder.Advance(second);
  decoder.Finish();
  cut.behind = decoder.BestPath();
  cut.lattice_behind = decoder.RawLattice();
  return cut;
}

TEST_P(Search, CutOnItsBestPathIsTheSameSearch) {
  for (const int frame : {1, 24, 25, 60, 119}) {
    Decoder whole(graph_, options_);
    MatrixScores all(scores_);
    whole.Advance(all);
    const LatticePath unended = whole.BestPath();
    whole.Finish();
    const LatticePath best = whole.BestPath();
    const InTwo cut = DecodeInTwo(graph_, scores_, options_, 120, frame);
    EXPECT_TRUE(std::equal(cut.before.alignment.begin(), cut.before.alignment.end(), unended.alignment.begin()));
    // The end may be another one's, whose way does not lead through the cut.
    if (!std::equal(cut.before.alignment.begin(), cut.before.alignment.end(), best.alignment.begin())) continue;
    LatticePath joined = cut.before;
    joined.words.insert(joined.words.end(), cut.behind.words.begin(), cut.behind.words.end());
    joined.alignment.insert(joined.alignment.end(), cut.behind.alignment.begin(), cut.behind.alignment.end());
    EXPECT_EQ(joined.words, best.words) << frame;
    EXPECT_EQ(joined.alignment, best.alignment) << frame;
    EXPECT_NEAR((cut.before.cost + cut.behind.cost).Total(kScale), best.cost.Total(kScale), 1e-2);
    EXPECT_NEAR(BestPath(cut.lattice_behind, kWeights).cost.Total(kScale), cut.behind.cost.Total(kScale), 1e-2);
  }
}

TEST_P(Search, GoesOnBehindACut) {
  const LatticePath best = Decode(graph_, scores_, options_).best;
  int same = 0;
  for (const int frame : {5, 30, 49}) {
    const InTwo cut = DecodeInTwo(graph_, scores_, options_, 80, frame);
    EXPECT_EQ(cut.before.alignment.size() + cut.behind.alignment.size(), 120U);
    EXPECT_NEAR(cut.before.cost.acoustic + cut.behind.cost.acoustic,
                Recost(graph_, scores_,
                       [&] {
                         LatticePath joined = cut.before;
                         joined.alignment.insert(joined.alignment.end(), cut.behind.alignment.begin(),
                                                 cut.behind.alignment.end());
                         return joined;
                       }()),
                1e-2);
    const double total = (cut.before.cost + cut.behind.cost).Total(kScale);
    EXPECT_GE(total, best.cost.Total(kScale) - 1e-2);
    if (std::equal(cut.before.alignment.begin(), cut.before.alignment.end(), best.alignment.begin())) {
      EXPECT_NEAR(total, best.cost.Total(kScale), 1e-2);
      ++same;
    }
  }
  EXPECT_GE(same, 1);
}

TEST_P(ToySearch, PathsThroughACutArePathsOfTheWhole) {
  for (int frame = 1; frame < 4; ++frame) {
    const InTwo cut = DecodeInTwo(graph_, scores_, Wide(), 4, frame);
    std::map<Words, double> joined;
    for (const auto& [first, cost] : AllPaths(cut.lattice_before)) {
      for (const auto& [second, more] : AllPaths(cut.lattice_behind)) {
        Words words = first;
        words.insert(words.end(), second.begin(), second.end());
        const auto [it, added] = joined.emplace(words, cost + more);
        if (!added) it->second = std::min(it->second, cost + more);
      }
    }
    const auto all = AllPaths(Decode(graph_, scores_, Wide()).raw);
    EXPECT_FALSE(joined.empty());
    for (const auto& [words, cost] : joined) {
      ASSERT_TRUE(all.contains(words));
      EXPECT_GE(cost, all.at(words) - 1e-3);
    }
  }
}

}  // namespace
}  // namespace antiphon::decode
