#include "decode/lattice/confidence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace antiphon::decode {
namespace {

constexpr double kNeverSaid = std::numeric_limits<double>::infinity();

// Word 0 is "nothing". An inserted word costs a little more than a substituted one, which decides between equal
// alignments.
double EditCost(int32_t a, int32_t b, bool insertion = false) { return a == b ? 0.0 : insertion ? 1.0 + 1e-5 : 1.0; }

struct LatticeEdge {
  int32_t from;
  int32_t to;
  int32_t word;
  double probability;  // of the arc among all that enter `to`
};

enum class Step : uint8_t { kMatch, kInsert, kDelete };

class Alignment {
 public:
  Alignment(const Lattice& lattice, const LatticeWeights& weights, std::span<const int32_t> hypothesis)
      : num_states_(lattice.states.size() + 1), columns_(2 * hypothesis.size() + 2) {
    // reference_[q] for q from 1: nothing, word, nothing, word, …, nothing.
    reference_.assign(columns_, 0);
    for (size_t i = 0; i < hypothesis.size(); ++i) reference_[2 * i + 2] = hypothesis[i];
    CollectArcs(lattice, weights);
  }

  std::vector<double> WordMass() {
    Forward();
    return Backward();
  }

 private:
  void CollectArcs(const Lattice& lattice, const LatticeWeights& weights) {
    const auto end = static_cast<int32_t>(lattice.states.size());
    std::vector<double> forward(num_states_, kNeverSaid);  // −log of the sum over paths
    forward[0] = 0.0;
    const auto add = [&](double cost, int32_t to) {
      const double least = std::min(cost, forward[to]), other = std::max(cost, forward[to]);
      if (least < kNeverSaid) forward[to] = least - std::log1p(std::exp(least - other));
    };
    for (int32_t s = 0; s < end; ++s) {
      const LatticeState& state = lattice.states[s];
      const auto visit = [&](int32_t to, int32_t word, double cost) {
        arcs_.push_back({s, to, word, forward[s] + cost});
        add(forward[s] + cost, to);
      };
      for (const LatticeArc& arc : state.arcs) {
        visit(arc.next_state, arc.word,
              arc.cost.Total(weights.acoustic_scale) + (arc.word != 0 ? weights.word_penalty : 0.0));
      }
      if (state.is_final) visit(end, 0, state.final_cost.Total(weights.acoustic_scale));
    }
    for (LatticeEdge& arc : arcs_) arc.probability = std::exp(forward[arc.to] - arc.probability);
  }

  // Expected edit distance of a path to each state against the first q reference positions.
  void Forward() {
    distance_.assign(num_states_ * columns_, 0.0);
    for (size_t q = 1; q < columns_; ++q) distance_[q] = distance_[q - 1] + EditCost(0, reference_[q]);
    row_.resize(columns_);
    steps_.resize(columns_);
    for (const LatticeEdge& arc : arcs_) {
      Align(arc);
      double* const to = &distance_[static_cast<size_t>(arc.to) * columns_];
      for (size_t q = 0; q < columns_; ++q) to[q] += arc.probability * row_[q];
    }
  }

  // Distances behind an arc, and how each came about. Arcs are in the order of their first state, whose distances are
  // done.
  void Align(const LatticeEdge& arc) {
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
  std::vector<double> Backward() {
    std::vector<double> mass(columns_, 0.0);
    std::vector<double> beta(num_states_ * columns_, 0.0), arc_beta(columns_);
    beta.back() = 1.0;
    for (auto arc = arcs_.rbegin(); arc != arcs_.rend(); ++arc) {
      Align(*arc);
      const double* const to = &beta[static_cast<size_t>(arc->to) * columns_];
      double* const from = &beta[static_cast<size_t>(arc->from) * columns_];
      for (size_t q = 0; q < columns_; ++q) arc_beta[q] = arc->probability * to[q];
      for (size_t q = columns_ - 1; q > 0; --q) {
        switch (steps_[q]) {
          case Step::kMatch:
            from[q - 1] += arc_beta[q];
            if (arc->word == reference_[q]) mass[q] += arc_beta[q];
            break;
          case Step::kInsert:
            from[q] += arc_beta[q];
            break;
          case Step::kDelete:
            arc_beta[q - 1] += arc_beta[q];
            break;
        }
      }
      from[0] += arc_beta[0];
    }
    std::vector<double> words;
    for (size_t q = 2; q < columns_; q += 2) words.push_back(std::clamp(mass[q], 0.0, 1.0));
    return words;
  }

  size_t num_states_;
  size_t columns_;
  std::vector<int32_t> reference_;
  std::vector<LatticeEdge> arcs_;
  std::vector<double> distance_, row_;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<double> WordConfidences(const Lattice& lattice, const LatticeWeights& weights,
                                    std::span<const int32_t> hypothesis) {
  CHECK(!lattice.empty());
  return Alignment(lattice, weights, hypothesis).WordMass();
}

}  // namespace antiphon::decode
