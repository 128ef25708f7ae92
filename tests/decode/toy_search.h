// Random graphs and scores, what a search finds in them, and what plain recursion finds.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "decode/search/decoder.h"
#include "decode/search/matrix_scores.h"

namespace antiphon::decode {

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
inline Graph RandomGraph(uint64_t seed, const Toy& toy) {
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

inline Matrix RandomToyScores(uint64_t seed, int frames, int pdfs) {
  Rng rng(seed);
  Matrix scores(frames, pdfs);
  for (int t = 0; t < frames; ++t) {
    for (float& value : scores.Row(t)) value = static_cast<float>(rng.Normal() * 3 - 5);
  }
  return scores;
}

using Words = std::vector<int32_t>;

// Every path that takes all frames, by plain recursion: best cost of each word sequence.
inline std::map<Words, double> Enumerate(const Graph& graph, const Matrix& scores) {
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

inline DecoderOptions Wide() {
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

inline Decoded Decode(const Graph& graph, ScoreSource& scores, const DecoderOptions& options, int chunk = -1) {
  Decoder decoder(graph, options);
  if (chunk < 0) decoder.Advance(scores);
  while (chunk > 0 && decoder.num_frames() < scores.num_frames_ready()) decoder.Advance(scores, chunk);
  decoder.Finish();
  return {decoder.BestPath(), decoder.RawLattice(), decoder.ReachedFinal()};
}

inline Decoded Decode(const Graph& graph, const Matrix& scores, const DecoderOptions& options, int chunk = -1) {
  MatrixScores source(scores);
  return Decode(graph, source, options, chunk);
}

constexpr LatticeWeights kWeights{kScale, 0.0};

inline std::map<Words, double> AllPaths(const Lattice& lattice) {
  std::map<Words, double> best;
  for (const LatticePath& path : NBest(lattice, kWeights, 1000000)) {
    best.emplace(path.words, path.cost.Total(kScale));  // the first is the cheapest
  }
  return best;
}

inline void ExpectSamePaths(const std::map<Words, double>& a, const std::map<Words, double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y) {
    EXPECT_EQ(x->first, y->first);
    EXPECT_NEAR(x->second, y->second, tolerance);
  }
}

inline double Recost(const Graph& graph, const Matrix& scores, const LatticePath& path) {
  double acoustic = 0.0;
  for (size_t t = 0; t < path.alignment.size(); ++t) {
    acoustic -= scores(static_cast<int64_t>(t), graph.pdf_of_transition()[path.alignment[t]]);
  }
  return acoustic;
}

class ToySearch : public ::testing::TestWithParam<uint64_t> {
 protected:
  Graph graph_ = RandomGraph(GetParam(), {});
  Matrix scores_ = RandomToyScores(GetParam() + 1000, 5, 4);
};

// Larger graphs and realistic beams.
class Search : public ::testing::TestWithParam<uint64_t> {
 protected:
  static constexpr Toy kLarge{400, 50, 30, 0.2, 0.1};
  Graph graph_ = RandomGraph(GetParam(), kLarge);
  Matrix scores_ = RandomToyScores(GetParam() + 1, 120, 30);
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

}  // namespace antiphon::decode
