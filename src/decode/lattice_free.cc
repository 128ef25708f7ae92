#include "decode/lattice_free.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace antiphon::decode {
namespace {

constexpr float kLargest = 30.0f;

// Which pdf-ids a path may have in each frame: all, or those near the reference.
class Allowed {
 public:
  explicit Allowed(int32_t num_pdfs) : all_(static_cast<size_t>(num_pdfs)) {
    for (size_t p = 0; p < all_.size(); ++p) all_[p] = static_cast<int32_t>(p);
  }
  Allowed(std::span<const int32_t> reference, int tolerance) : near_(reference.size()) {
    for (size_t t = 0; t < reference.size(); ++t) {
      const size_t begin = t - std::min(t, static_cast<size_t>(tolerance));
      const size_t end = std::min(reference.size(), t + static_cast<size_t>(tolerance) + 1);
      near_[t].assign(reference.begin() + static_cast<std::ptrdiff_t>(begin),
                      reference.begin() + static_cast<std::ptrdiff_t>(end));
      std::sort(near_[t].begin(), near_[t].end());
      near_[t].erase(std::unique(near_[t].begin(), near_[t].end()), near_[t].end());  // clang 14 lacks ranges::unique
    }
  }
  std::span<const int32_t> operator[](int64_t t) const {
    return near_.empty() ? std::span(all_) : std::span(near_[static_cast<size_t>(t)]);
  }

 private:
  std::vector<int32_t> all_;
  std::vector<std::vector<int32_t>> near_;
};

class ForwardBackward {
 public:
  ForwardBackward(const DenominatorGraph& graph, ConstMatrixView y, double leaky)
      : graph_(graph), leaky_(static_cast<float>(leaky)), likelihoods_(y.rows(), y.cols()) {
    for (int64_t t = 0; t < y.rows(); ++t) {
      std::ranges::transform(y.Row(t), likelihoods_.Row(t).begin(),
                             [](float v) { return std::exp(std::clamp(v, -kLargest, kLargest)); });
    }
  }

  // log Σ over the allowed paths; −∞ if there are none. Adds scale · occupancies to `gradient`, unless it is empty.
  double Run(const Allowed& allowed, float scale, MatrixView gradient) {
    const double log_sum = Forward(allowed, leaky_);
    if (!gradient.empty() && std::isfinite(log_sum)) Backward(allowed, scale, gradient);
    return log_sum;
  }
  // Whether the graph has an allowed path without leaks.
  bool Has(const Allowed& allowed) { return std::isfinite(Forward(allowed, 0.0f)); }

 private:
  // alpha_[t] sums to 1 before frame t, leaks included; what was divided by is in scales_.
  double Forward(const Allowed& allowed, float leaky) {
    const int64_t frames = likelihoods_.rows();
    alpha_.Resize(frames + 1, graph_.num_states());
    scales_.assign(static_cast<size_t>(frames), 0.0f);
    std::ranges::copy(graph_.initial(), alpha_.Row(0).begin());
    double log_sum = 0;
    for (int64_t t = 0; t < frames; ++t) {
      const std::span<const float> before = alpha_.Row(t);
      const std::span<float> after = alpha_.Row(t + 1);
      std::ranges::fill(after, 0.0f);
      for (const int32_t pdf : allowed[t]) {
        const float likelihood = likelihoods_(t, pdf);
        for (const auto& arc : graph_.ArcsOf(pdf)) {
          after[static_cast<size_t>(arc.to)] += before[static_cast<size_t>(arc.from)] * arc.probability * likelihood;
        }
      }
      double sum = 0;
      for (const float a : after) sum += static_cast<double>(a);
      if (!(sum > 0) || !std::isfinite(sum)) return -std::numeric_limits<double>::infinity();
      log_sum += std::log(sum);
      // Leaks carry the share `leaky` of everything to the initial probabilities; with them the sum is 1 + leaky.
      const auto inverse = static_cast<float>(1 / sum);
      scales_[static_cast<size_t>(t)] = inverse;
      for (size_t s = 0; s < after.size(); ++s) after[s] = after[s] * inverse + leaky * graph_.initial()[s];
    }
    return log_sum;
  }

  void Backward(const Allowed& allowed, float scale, MatrixView gradient) {
    const auto states = static_cast<size_t>(graph_.num_states());
    std::vector<float> behind(states, 1.0f), here(states);
    for (int64_t t = likelihoods_.rows() - 1; t >= 0; --t) {
      // `behind` is by the states after frame t, before leaks: a state's own, and what leaks into it is worth.
      const std::span<const float> before = alpha_.Row(t);
      const float inverse = scales_[static_cast<size_t>(t)];
      std::ranges::fill(here, 0.0f);
      for (const int32_t pdf : allowed[t]) {
        const float likelihood = likelihoods_(t, pdf) * inverse;
        double occupancy = 0;
        for (const auto& arc : graph_.ArcsOf(pdf)) {
          const float worth = arc.probability * likelihood * behind[static_cast<size_t>(arc.to)];
          here[static_cast<size_t>(arc.from)] += worth;
          occupancy += static_cast<double>(before[static_cast<size_t>(arc.from)] * worth);
        }
        gradient(t, pdf) += scale * static_cast<float>(occupancy);
      }
      double leaked = 0;
      for (size_t s = 0; s < states; ++s)
        leaked += static_cast<double>(graph_.initial()[s]) * static_cast<double>(here[s]);
      for (size_t s = 0; s < states; ++s) behind[s] = here[s] + leaky_ * static_cast<float>(leaked);
    }
  }

  const DenominatorGraph& graph_;
  float leaky_;
  Matrix likelihoods_;
  Matrix alpha_;
  std::vector<float> scales_;
};

}  // namespace

std::optional<double> LatticeFreeLoss(const DenominatorGraph& graph, std::span<const int32_t> reference,
                                      ConstMatrixView y, const LatticeFreeOptions& options, MatrixView gradient) {
  if (static_cast<size_t>(y.rows()) != reference.size() || y.cols() != graph.num_pdfs()) {
    Throw<ShapeError>("{} frames of {} pdf-ids do not go with a reference of {} frames and a graph of {} pdf-ids",
                      y.rows(), y.cols(), reference.size(), graph.num_pdfs());
  }
  for (const int32_t pdf : reference) {
    if (pdf < 0 || pdf >= graph.num_pdfs()) Throw<InputError>("pdf-id {} of the reference is not in the graph", pdf);
  }
  for (int64_t t = 0; t < gradient.rows(); ++t) std::ranges::fill(gradient.Row(t), 0.0f);
  // A network that has diverged is no fault of the graph's: training sees it by its loss, and goes back.
  const auto finite = [](float v) { return std::isfinite(v); };
  for (int64_t t = 0; t < y.rows(); ++t) {
    if (!std::ranges::all_of(y.Row(t), finite)) return std::numeric_limits<double>::quiet_NaN();
  }
  ForwardBackward passes(graph, y, options.leaky);
  const Allowed near(reference, options.tolerance);
  if (!passes.Has(near)) return std::nullopt;
  const double all = passes.Run(Allowed(graph.num_pdfs()), 1.0f, gradient);
  return all - passes.Run(near, -1.0f, gradient);
}

}  // namespace antiphon::decode
