#include "decode/lattice/expected_alignment.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/log_add.h"
#include "decode/lattice/lattice_walk.h"

namespace antiphon::decode {
namespace {

// Word 0 is "nothing". An inserted word costs a little more than a substituted one, which decides between equal
// alignments.
double EditCost(int32_t a, int32_t b, bool insertion = false) { return a == b ? 0.0 : insertion ? 1.0 + 1e-5 : 1.0; }

void AddPosterior(WordPosteriors& place, int32_t word, double mass) {
  for (auto& [there, sum] : place) {
    if (there == word) {
      sum += mass;
      return;
    }
  }
  place.emplace_back(word, mass);
}

}  // namespace

double PosteriorOf(const WordPosteriors& place, int32_t word) {
  for (const auto& [there, mass] : place) {
    if (there == word) return mass;
  }
  return 0.0;
}

ExpectedAlignment::ExpectedAlignment(const Lattice& lattice, const LatticeWeights& weights, double scale)
    : num_states_(lattice.states.size() + 1) {
  CHECK(!lattice.empty());
  CollectArcs(lattice, weights, scale);
}

std::vector<WordPosteriors> ExpectedAlignment::Places(std::span<const int32_t> hypothesis) {
  // reference_[q] for q from 1: nothing, word, nothing, word, …, nothing.
  columns_ = 2 * hypothesis.size() + 2;
  reference_.assign(columns_, 0);
  for (size_t i = 0; i < hypothesis.size(); ++i) reference_[2 * i + 2] = hypothesis[i];
  Forward();
  return Backward();
}

void ExpectedAlignment::CollectArcs(const Lattice& lattice, const LatticeWeights& weights, double scale) {
  const auto end = static_cast<int32_t>(lattice.states.size());
  std::vector<double> forward(num_states_, kUnreached);  // −log of the sum over paths
  forward[0] = 0.0;
  for (int32_t s = 0; s < end; ++s) {
    const LatticeState& state = lattice.states[s];
    const auto visit = [&](int32_t to, int32_t word, double cost) {
      arcs_.push_back({s, to, word, forward[s] + cost});
      forward[to] = LogAddCosts(forward[to], forward[s] + cost);
    };
    for (const LatticeArc& arc : state.arcs) visit(arc.next_state, arc.word, scale * ArcCost(arc, weights));
    if (state.is_final) visit(end, 0, scale * FinalCost(state, weights));
  }
  for (Edge& arc : arcs_) arc.probability = std::exp(forward[arc.to] - arc.probability);
}

// Expected edit distance of a path to each state against the first q reference positions.
void ExpectedAlignment::Forward() {
  distance_.assign(num_states_ * columns_, 0.0);
  for (size_t q = 1; q < columns_; ++q) distance_[q] = distance_[q - 1] + EditCost(0, reference_[q]);
  row_.resize(columns_);
  steps_.resize(columns_);
  for (const Edge& arc : arcs_) {
    Align(arc);
    double* const to = &distance_[static_cast<size_t>(arc.to) * columns_];
    for (size_t q = 0; q < columns_; ++q) to[q] += arc.probability * row_[q];
  }
}

// Distances behind an arc, and how each came about. Arcs are in the order of their first state, whose distances are
// done.
void ExpectedAlignment::Align(const Edge& arc) {
  const double* const from = &distance_[static_cast<size_t>(arc.from) * columns_];
  row_[0] = from[0] + EditCost(arc.word, 0, true);
  steps_[0] = Step::kInsert;
  for (size_t q = 1; q < columns_; ++q) {
    const double match = from[q - 1] + EditCost(arc.word, reference_[q]);
    const double insert = from[q] + EditCost(arc.word, 0, true);
    const double remove = row_[q - 1] + EditCost(0, reference_[q]);
    row_[q] = std::min({match, insert, remove});
    steps_[q] = row_[q] == match ? Step::kMatch : row_[q] == insert ? Step::kInsert : Step::kDelete;
  }
}

// Sends the mass of all paths back along their alignments.
std::vector<WordPosteriors> ExpectedAlignment::Backward() {
  std::vector<WordPosteriors> places(columns_ - 1);
  std::vector<double> beta(num_states_ * columns_, 0.0), arc_beta(columns_);
  beta.back() = 1.0;
  for (auto arc = arcs_.rbegin(); arc != arcs_.rend(); ++arc) {
    Align(*arc);
    const double* const to = &beta[static_cast<size_t>(arc->to) * columns_];
    double* const from = &beta[static_cast<size_t>(arc->from) * columns_];
    for (size_t q = 0; q < columns_; ++q) arc_beta[q] = arc->probability * to[q];
    for (size_t q = columns_ - 1; q > 0; --q) {
      if (arc_beta[q] == 0.0) continue;
      switch (steps_[q]) {
        case Step::kMatch:
          from[q - 1] += arc_beta[q];
          AddPosterior(places[q - 1], arc->word, arc_beta[q]);
          break;
        case Step::kInsert:
          from[q] += arc_beta[q];
          break;
        case Step::kDelete:
          arc_beta[q - 1] += arc_beta[q];
          AddPosterior(places[q - 1], 0, arc_beta[q]);
          break;
      }
    }
    from[0] += arc_beta[0];
  }
  // Places that paths have left behind before their first arc say nothing.
  for (size_t q = 1; q < columns_; ++q) {
    double rest = 1.0;
    for (const auto& [word, mass] : places[q - 1]) rest -= mass;
    if (rest > 0.0) AddPosterior(places[q - 1], 0, rest);
    std::sort(places[q - 1].begin(), places[q - 1].end());
  }
  return places;
}

}  // namespace antiphon::decode
