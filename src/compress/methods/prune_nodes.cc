// Hidden-node pruning: the least important nodes of hidden layers go, with their rows below and columns above.
//
// Importance of a node:
//   output-norm  mean |weight| of what it feeds
//   input-norm   mean |weight| of what feeds it
//   entropy      −p·log₂p − (1−p)·log₂(1−p), p the share of frames in which its activation is above 0.5 (sigmoid), or
//                above 0 (others)
// With frames, what a removed node passed on in the mean is folded into the biases above, so that a node that never
// changes can go without a trace. A hidden layer is an affine layer, elementwise layers, and the next affine layer.
// Source: He, Fan, Qian, Tan, Yu, Reshaping deep neural network for fast decoding by node-pruning, ICASSP 2014;
// algorithms reference 2.4.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/options.h"
#include "compress/method.h"
#include "compress/network_parts.h"
#include "compress/statistics.h"

namespace antiphon::compress {
namespace {

struct PruneNodesOptions {
  std::string importance = "output-norm";
  double share = 0.3;
  std::string scope = "layer";
  int multiple = 8;
  bool fold_mean = true;
  template <class V>
  void Visit(V& v) {
    v("importance", importance, OneOf{{"output-norm", "input-norm", "entropy"}}, "what is looked at");
    v("share", share, Range{0, 0.99}, "of the hidden nodes that go");
    v("scope", scope, OneOf{{"layer", "network"}}, "the share holds for each layer, or for all together");
    v("multiple", multiple, Range{1, 1024}, "as many nodes of a layer stay as a multiple of this, or all");
    v("fold-mean", fold_mean, "add the mean of what removed nodes passed on to the biases above, if there are frames");
  }
};

// A hidden layer: the nodes are the rows of `below` and the columns of `above`.
struct Hidden {
  size_t below = 0;
  size_t above = 0;
  std::vector<double> importance;
  std::vector<double> mean;  // of the inputs of `above`; empty without frames
};

bool KeepsNodesApart(const std::string& type) {
  static const std::vector<std::string> kTypes = {"relu", "sigmoid", "tanh", "batch-norm", "dropout", "normalize"};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

std::vector<Hidden> FindHidden(const std::vector<LayerParts>& parts) {
  std::vector<Hidden> found;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!IsDense(parts[i]) || parts[i].tensors.contains("mask")) continue;
    size_t above = i + 1;
    while (above < parts.size() && KeepsNodesApart(parts[above].type)) ++above;
    if (above == i + 1) continue;  // a rank, no nodes
    if (above < parts.size() && IsDense(parts[above]) && !parts[above].tensors.contains("mask")) {
      found.push_back({i, above, {}, {}});
    }
  }
  if (found.empty()) {
    throw InputError(
        "there are no hidden nodes that could go: between affine layers without masks, only elementwise "
        "layers may stand");
  }
  return found;
}

Matrix WithoutColumns(const Matrix& m, const std::vector<int64_t>& kept) {
  Matrix out(m.rows(), std::ssize(kept));
  for (int64_t r = 0; r < m.rows(); ++r) {
    for (int64_t c = 0; c < out.cols(); ++c) out(r, c) = m(r, kept[static_cast<size_t>(c)]);
  }
  return out;
}

Matrix WithoutRows(const Matrix& m, const std::vector<int64_t>& kept) {
  Matrix out(std::ssize(kept), m.cols());
  for (int64_t r = 0; r < out.rows(); ++r)
    std::copy_n(m.Row(kept[static_cast<size_t>(r)]).data(), m.cols(), out.Row(r).data());
  return out;
}

class PruneNodes : public Method {
 public:
  explicit PruneNodes(const PruneNodesOptions& options) : options_(options) {}
  bool keeps_output() const override { return options_.share == 0; }
  bool needs_frames() const override { return options_.importance == "entropy"; }

  Changes Apply(nn::Model& model, const MethodInput& input) const override {
    std::vector<LayerParts> parts = TakeApart(model.network);
    std::vector<Hidden> hidden = FindHidden(parts);
    if (needs_frames()) RequireFrames(input, "prune-nodes by entropy");
    if (input.frames != nullptr) LookAtFrames(model.network, parts, *input.frames, hidden);
    if (options_.importance != "entropy") MeasureNorms(parts, hidden);
    Changes changes;
    const std::vector<int64_t> sizes = Sizes(hidden);
    for (size_t h = 0; h < hidden.size(); ++h) changes.push_back(Remove(hidden[h], sizes[h], parts));
    model.network = PutTogether(parts, model.network.in_dim());
    return changes;
  }

 private:
  void MeasureNorms(const std::vector<LayerParts>& parts, std::vector<Hidden>& hidden) const {
    for (Hidden& h : hidden) {
      const Matrix& below = parts[h.below].weight();
      const Matrix& above = parts[h.above].weight();
      h.importance.assign(static_cast<size_t>(below.rows()), 0.0);
      for (int64_t n = 0; n < below.rows(); ++n) {
        double sum = 0;
        if (options_.importance == "input-norm") {
          for (const float w : below.Row(n)) sum += std::abs(static_cast<double>(w));
          sum /= static_cast<double>(below.cols());
        } else {
          for (int64_t r = 0; r < above.rows(); ++r) sum += std::abs(static_cast<double>(above(r, n)));
          sum /= static_cast<double>(above.rows());
        }
        h.importance[static_cast<size_t>(n)] = sum;
      }
    }
  }

  // Means of what is passed on, and entropies if they are asked for.
  void LookAtFrames(const nn::Network& network, const std::vector<LayerParts>& parts, InputFrames& frames,
                    std::vector<Hidden>& hidden) const {
    double count = 0;
    for (Hidden& h : hidden) {
      h.mean.assign(static_cast<size_t>(parts[h.below].weight().rows()), 0.0);
      h.importance.assign(h.mean.size(), 0.0);
    }
    ForLayers(network, frames, [&](size_t i, ConstMatrixView x, ConstMatrixView y) {
      if (i == 0) count += static_cast<double>(x.rows());
      for (Hidden& h : hidden) {
        if (i == h.above)
          AddColumns(
              x, [](float v) { return static_cast<double>(v); }, h.mean);
        // The output of the product and the function above it, which may be computed with it.
        const size_t function = network.begins_range(h.below + 1) ? h.below + 1 : h.below;
        if (i != function) continue;
        const float threshold = parts[h.below + 1].type == "sigmoid" ? 0.5f : 0.0f;
        AddColumns(
            y, [threshold](float v) { return v > threshold ? 1.0 : 0.0; }, h.importance);
      }
    });
    for (Hidden& h : hidden) {
      for (double& m : h.mean) m /= std::max(count, 1.0);
      for (double& p : h.importance) {
        p /= std::max(count, 1.0);
        p = p <= 0 || p >= 1 ? 0.0 : -p * std::log2(p) - (1 - p) * std::log2(1 - p);
      }
    }
  }

  template <class Value>
  static void AddColumns(ConstMatrixView m, Value value, std::vector<double>& sums) {
    for (int64_t r = 0; r < m.rows(); ++r) {
      for (int64_t c = 0; c < m.cols(); ++c) sums[static_cast<size_t>(c)] += value(m(r, c));
    }
  }

  // How many nodes of each layer stay.
  std::vector<int64_t> Sizes(const std::vector<Hidden>& hidden) const {
    std::vector<double> all;
    for (const Hidden& h : hidden) all.insert(all.end(), h.importance.begin(), h.importance.end());
    std::sort(all.begin(), all.end());
    const auto gone = static_cast<size_t>(options_.share * static_cast<double>(all.size()));
    std::vector<int64_t> sizes;
    for (const Hidden& h : hidden) {
      const int64_t n = std::ssize(h.importance);
      int64_t left = n - static_cast<int64_t>(options_.share * static_cast<double>(n));
      if (options_.scope == "network" && gone > 0) {
        left = std::count_if(h.importance.begin(), h.importance.end(), [&](double v) { return v > all[gone - 1]; });
      }
      const int64_t m = options_.multiple;
      sizes.push_back(std::min(n, (std::max<int64_t>(left, 1) + m - 1) / m * m));
    }
    return sizes;
  }

  Change Remove(const Hidden& h, int64_t size, std::vector<LayerParts>& parts) const {
    const int64_t before = std::ssize(h.importance);
    std::vector<int64_t> order(static_cast<size_t>(before));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return h.importance[static_cast<size_t>(a)] > h.importance[static_cast<size_t>(b)];
    });
    const std::vector<int64_t> gone(order.begin() + size, order.end());
    std::vector<int64_t> kept(order.begin(), order.begin() + size);
    std::sort(kept.begin(), kept.end());
    LayerParts& above = parts[h.above];
    if (options_.fold_mean && !h.mean.empty() && above.tensors.contains("bias")) {
      Matrix& bias = above.tensors.at("bias");
      for (int64_t r = 0; r < bias.cols(); ++r) {
        double sum = 0;
        for (const int64_t n : gone) sum += static_cast<double>(above.weight()(r, n)) * h.mean[static_cast<size_t>(n)];
        bias(0, r) += static_cast<float>(sum);
      }
    }
    above.tensors["weight"] = WithoutColumns(above.weight(), kept);
    LayerParts& below = parts[h.below];
    below.tensors["weight"] = WithoutRows(below.weight(), kept);
    if (below.tensors.contains("bias")) below.tensors["bias"] = WithoutColumns(below.tensors.at("bias"), kept);
    below.config.Set("dim", std::to_string(size));
    for (size_t i = h.below + 1; i < h.above; ++i) {
      for (auto& [name, tensor] : parts[i].tensors) {
        if (tensor.cols() == before) tensor = WithoutColumns(tensor, kept);
      }
    }
    return {below.name, fmt::format("{} of {} nodes stay", size, before)};
  }

  PruneNodesOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "prune-nodes", [](const Config& config) {
  return std::make_unique<PruneNodes>(ReadOptions<PruneNodesOptions>(config));
});

}  // namespace
}  // namespace antiphon::compress
