// SVD restructuring: W ≈ B·A, a `linear` layer of rank k and then an `affine` one, where that is smaller.
//
// W = U·Σ·Vᵀ, B = U_k·Σ_k^½, A = Σ_k^½·V_kᵀ. The rank of each layer is, in this order of precedence:
//   rank        as given
//   size        all layers together keep this share of their weights: ranks are grown one `multiple` at a time where a
//               weight buys most of the energy that is still missing
//   divergence  the smallest energy, searched by bisection, at which the outputs' mean KL from the full model's on the
//               frames stays below this many nats
//   energy      the smallest with Σ_{i≤k} σ_i² ≥ energy · Σ σ_i²
// With `weighted`, what is kept small is the error of the layer's output on the frames, ‖(W − BA)·X‖ instead of
// ‖W − BA‖: W·L is taken apart, L·Lᵀ being the second moments of the inputs, and the energies are those of the outputs.
// A layer whose rank would leave more than `limit` of its weights stays as it is; if all would, it is refused.
// Source: Xue, Li, Gong, Restructuring of deep neural network acoustic models with singular value decomposition,
// Interspeech 2013; algorithms reference 2.1.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/options.h"
#include "compress/method.h"
#include "compress/network_parts.h"
#include "compress/statistics.h"
#include "math/linalg.h"

namespace antiphon::compress {
namespace {

struct SvdOptions {
  double energy = 0.8;
  double size = 0;
  double divergence = 0;
  int rank = 0;
  int multiple = 8;
  double limit = 0.95;
  bool weighted = true;
  std::vector<std::string> layers;
  template <class V>
  void Visit(V& v) {
    v("energy", energy, Range{0, 1}, "share of the squared singular values that is kept, per layer");
    v("size", size, Range{0, 1}, "share of the layers' weights that is kept, all together; 0: by energy");
    v("divergence", divergence, Range{0, 100},
      "search for the smallest energy of this KL to the full model's outputs, in nats; 0: none");
    v("rank", rank, Range{0, 1 << 20}, "rank of every layer; 0: by size, divergence or energy");
    v("multiple", multiple, Range{1, 1024}, "ranks are multiples of this, for the kernels' sake");
    v("limit", limit, Range{0, 1e9}, "a layer that would keep more than this share of its weights stays as it is");
    v("weighted", weighted, "keep the error of outputs on frames small (needs a store); false: that of weights");
    v("layers", layers, "names of the layers; empty: all that are affine");
  }
};

struct Decomposition {
  size_t layer = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<double> s;
  DoubleMatrix b;  // U·Σ^½ [rows, r]
  DoubleMatrix a;  // Σ^½·Vᵀ·L⁻¹ [r, cols]
  double total = 0;

  double Kept(int64_t rank) const {
    double sum = 0;
    for (int64_t i = 0; i < rank; ++i) sum += s[static_cast<size_t>(i)] * s[static_cast<size_t>(i)];
    return total > 0 ? sum / total : 1;
  }
};

// Lower triangular L with L·Lᵀ = moments, made positive definite by a little of their mean.
DoubleMatrix Root(DoubleMatrix moments) {
  double trace = 0;
  for (int64_t i = 0; i < moments.rows(); ++i) trace += moments(i, i);
  const double ridge = 1e-4 * trace / static_cast<double>(moments.rows()) + 1e-12;
  for (int64_t i = 0; i < moments.rows(); ++i) moments(i, i) += ridge;
  return Cholesky(moments);
}

Decomposition Decompose(size_t layer, const Matrix& weight, const DoubleMatrix& moments) {
  const DoubleMatrix root = moments.empty() ? DoubleMatrix() : Root(moments);
  const DoubleMatrix w = ToDouble(weight);
  SvdResult svd = Svd(moments.empty() ? w : Product(w, root));
  Decomposition d{layer, weight.rows(), weight.cols(), svd.s, std::move(svd.u), std::move(svd.vt), 0};
  if (!moments.empty()) d.a = Product(d.a, Inverse(root));
  for (size_t i = 0; i < d.s.size(); ++i) {
    const auto k = static_cast<int64_t>(i);
    const double half = std::sqrt(d.s[i]);
    for (int64_t r = 0; r < d.rows; ++r) d.b(r, k) *= half;
    for (double& v : d.a.Row(k)) v *= half;
    d.total += d.s[i] * d.s[i];
  }
  return d;
}

class SvdMethod : public Method {
 public:
  explicit SvdMethod(const SvdOptions& options) : options_(options) {}

  bool keeps_output() const override {
    return options_.energy == 1 && options_.rank == 0 && options_.size == 0 && options_.divergence == 0;
  }
  bool needs_frames() const override { return options_.weighted || options_.divergence > 0; }

  Changes Apply(nn::Model& model, const MethodInput& input) const override {
    const std::vector<LayerParts> parts = TakeApart(model.network, Shortcuts::kOpened);
    const std::vector<size_t> layers = LayersFor("svd", parts, PlainTypes(), {options_.layers, false, false});
    std::vector<DoubleMatrix> moments(parts.size());
    if (options_.weighted)
      moments = SecondMoments(model.network, parts, RequireFrames(input, "svd with weighted = true"), layers);
    std::vector<Decomposition> all;
    for (const size_t i : layers) all.push_back(Decompose(i, parts[i].weight(), moments[i]));
    std::vector<int64_t> ranks;
    if (options_.rank == 0 && options_.size == 0 && options_.divergence > 0) {
      ranks = SearchRanks(model, parts, all, RequireFrames(input, "svd, divergence"));
    } else {
      ranks = Ranks(all, options_.energy);
    }
    Changes changes;
    nn::Network network = Rebuild(model, parts, all, ranks, &changes);
    if (network.ToToml() == model.network.ToToml() && !keeps_output()) RefuseToKeepAll(parts, changes);
    model.network = std::move(network);
    return changes;
  }

 private:
  [[noreturn]] static void RefuseToKeepAll(const std::vector<LayerParts>& parts, const Changes& changes) {
    std::string kept;
    for (const Change& c : changes) kept += fmt::format("{}'{}' {}", kept.empty() ? "" : ", ", c.layer, c.what);
    Throw<UsageError>(
        "method 'svd' makes no layer smaller: {}. Ask for less (svd.size, svd.energy, svd.rank), or for ranks of a "
        "finer svd.multiple{}",
        kept, WeightsThatStay(parts));
  }

  int64_t RoundUp(int64_t rank, const Decomposition& d) const {
    const int64_t m = options_.multiple;
    return std::min<int64_t>((std::max<int64_t>(rank, 1) + m - 1) / m * m, std::ssize(d.s));
  }

  std::vector<int64_t> Ranks(const std::vector<Decomposition>& all, double energy) const {
    if (options_.rank == 0 && options_.size > 0) return RanksForSize(all);
    std::vector<int64_t> ranks;
    for (const Decomposition& d : all) {
      int64_t rank = options_.rank;
      if (rank == 0) {
        while (rank < std::ssize(d.s) && d.Kept(rank) < energy) ++rank;
      }
      ranks.push_back(RoundUp(rank, d));
    }
    return ranks;
  }

  // Every layer begins with one `multiple`; the next always goes where it buys most energy per weight.
  std::vector<int64_t> RanksForSize(const std::vector<Decomposition>& all) const {
    double budget = 0;
    std::vector<int64_t> ranks;
    for (const Decomposition& d : all) {
      budget += options_.size * static_cast<double>(d.rows * d.cols);
      ranks.push_back(RoundUp(1, d));
      budget -= static_cast<double>(ranks.back() * (d.rows + d.cols));
    }
    for (;;) {
      double best_gain = 0;
      size_t best = all.size();
      for (size_t i = 0; i < all.size(); ++i) {
        const int64_t next = RoundUp(ranks[i] + 1, all[i]);
        const auto cost = static_cast<double>((next - ranks[i]) * (all[i].rows + all[i].cols));
        if (next == ranks[i] || cost > budget) continue;
        const double gain = (all[i].Kept(next) - all[i].Kept(ranks[i])) / cost;
        if (gain <= best_gain) continue;
        best_gain = gain;
        best = i;
      }
      if (best == all.size()) return ranks;
      const int64_t next = RoundUp(ranks[best] + 1, all[best]);
      budget -= static_cast<double>((next - ranks[best]) * (all[best].rows + all[best].cols));
      ranks[best] = next;
    }
  }

  std::vector<int64_t> SearchRanks(const nn::Model& model, const std::vector<LayerParts>& parts,
                                   const std::vector<Decomposition>& all, InputFrames& frames) const {
    double low = 0;  // too little
    double high = 1;
    for (int step = 0; step < 10; ++step) {
      const double energy = (low + high) / 2;
      nn::Model candidate;
      candidate.frames_per_forward = model.frames_per_forward;
      candidate.network = Rebuild(model, parts, all, Ranks(all, energy), nullptr);
      (OutputDivergence(model, candidate, frames) <= options_.divergence ? high : low) = energy;
    }
    return Ranks(all, high);
  }

  nn::Network Rebuild(const nn::Model& model, const std::vector<LayerParts>& parts,
                      const std::vector<Decomposition>& all, const std::vector<int64_t>& ranks,
                      Changes* changes) const {
    std::vector<LayerParts> out;
    size_t next = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (next == all.size() || all[next].layer != i) {
        out.push_back(parts[i]);
        continue;
      }
      const Decomposition& d = all[next];
      const int64_t rank = ranks[next++];
      const double share = static_cast<double>(rank * (d.rows + d.cols)) / static_cast<double>(d.rows * d.cols);
      if (changes != nullptr) {
        changes->push_back(
            {parts[i].name, share > options_.limit
                                ? fmt::format("kept: rank {} would be {:.0f} % of it", rank, 100 * share)
                                : fmt::format("rank {} of {}, {:.1f} % of the energy, {:.0f} % of the weights", rank,
                                              d.s.size(), 100 * d.Kept(rank), 100 * share)});
      }
      if (share > options_.limit) {
        out.push_back(parts[i]);
      } else {
        Split(parts[i], LowerName(parts, parts[i].name), d, rank, out);
      }
    }
    return PutTogether(out, model.network.in_dim());
  }

  // A layer that was split before left its lower one.
  static std::string LowerName(const std::vector<LayerParts>& parts, const std::string& layer) {
    const std::string name = layer + "-in";
    return nn::HasLayer(parts, name) ? nn::FreeName(parts, name) : name;
  }

  static void Split(const LayerParts& layer, const std::string& lower, const Decomposition& d, int64_t rank,
                    std::vector<LayerParts>& out) {
    Config low;
    low.Set("dim", std::to_string(rank));
    LayerParts first = MakeLayer(layer, lower, "linear", low);
    Config high;
    high.Set("dim", std::to_string(d.rows));
    LayerParts second = MakeLayer(layer, layer.name, layer.type, high);
    Matrix a(rank, d.cols);
    Matrix b(d.rows, rank);
    for (int64_t k = 0; k < rank; ++k) {
      for (int64_t c = 0; c < d.cols; ++c) a(k, c) = static_cast<float>(d.a(k, c));
      for (int64_t r = 0; r < d.rows; ++r) b(r, k) = static_cast<float>(d.b(r, k));
    }
    first.tensors["weight"] = std::move(a);
    second.tensors["weight"] = std::move(b);
    if (layer.tensors.contains("bias")) second.tensors["bias"] = layer.tensors.at("bias");
    out.push_back(std::move(first));
    out.push_back(std::move(second));
  }

  SvdOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "svd",
                   [](const Config& config) { return std::make_unique<SvdMethod>(ReadOptions<SvdOptions>(config)); });

}  // namespace
}  // namespace antiphon::compress
