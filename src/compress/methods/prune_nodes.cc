// Hidden-node pruning: the least important nodes of hidden layers go, with their rows below and columns above.
//
// Importance of a node:
//   output-norm  mean |weight| of what it feeds
//   input-norm   mean |weight| of what feeds it
//   entropy      −p·log₂p − (1−p)·log₂(1−p), p the share of frames in which its activation is above 0.5 (sigmoid), or
//                above 0 (others)
// With frames, what a removed node passed on in the mean is folded into the biases above, so that a node that never
// changes can go without a trace. A hidden layer is an affine layer, elementwise layers, and the next affine layer;
// where that is a time-delay layer, a node goes from all frames that are spliced.
// Source: He, Fan, Qian, Tan, Yu, Reshaping deep neural network for fast decoding by node-pruning, ICASSP 2014;
// algorithms reference 2.4.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
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

// A hidden layer: the nodes are the rows of `below` and the columns of `above`, over and over if several frames stand
// beside one another there: column c is that of node c modulo the number of nodes.
struct Hidden {
  size_t below = 0;
  size_t above = 0;
  std::vector<double> importance;
  std::vector<double> mean;  // of the inputs of `above`, column by column; empty without frames
  // Frames that are in the sums: where layers look at several, those above see fewer.
  double importance_frames = 0;
  double mean_frames = 0;
};

// "'tdnn1' (affine), 'relu1' (relu)".
std::string ChainText(const std::vector<LayerParts>& parts) {
  std::string text;
  for (const LayerParts& layer : parts) {
    text += fmt::format("{}'{}' ({})", text.empty() ? "" : ", ", layer.name, layer.type);
  }
  return text;
}

std::vector<Hidden> FindHidden(const std::vector<LayerParts>& parts) {
  std::vector<Hidden> found;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!IsDense(parts[i]) || parts[i].tensors.contains("mask")) continue;
    size_t above = i + 1;
    bool has_function = false;
    for (; above < parts.size(); ++above) {
      if (TraitsOf(parts[above]).units_apart) {
        has_function = true;
      } else if (!TraitsOf(parts[above]).splices) {
        break;
      }
    }
    if (!has_function) continue;  // a rank, no nodes
    if (above < parts.size() && IsDense(parts[above]) && !parts[above].tensors.contains("mask")) {
      found.push_back({.below = i, .above = above, .importance = {}, .mean = {}});
    }
  }
  if (found.empty()) {
    Throw<InputError>(
        "method 'prune-nodes': there are no hidden nodes that could go. They lie between two affine layers without "
        "masks that have nothing but functions of single values (relu, batch-norm …) and splices between them, and the "
        "network is "
        "{}: take 'svd', 'prune' or 'quantize' for its affine layers{}",
        ChainText(parts), WeightsThatStay(parts));
  }
  return found;
}

// Those of the nodes that stay, among as many columns as `m` has of `nodes` each.
std::vector<int64_t> ColumnsOf(const Matrix& m, const std::vector<int64_t>& kept, int64_t nodes) {
  std::vector<int64_t> columns;
  for (int64_t first = 0; first < m.cols(); first += nodes) {
    for (const int64_t n : kept) columns.push_back(first + n);
  }
  return columns;
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
    if (options_.share > 0) WarnIfAllStay(parts, hidden, sizes);
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
          for (int64_t r = 0; r < above.rows(); ++r) {
            for (int64_t c = n; c < above.cols(); c += below.rows()) sum += std::abs(static_cast<double>(above(r, c)));
          }
          const int64_t num_weights = above.size() / below.rows();
          sum /= static_cast<double>(num_weights);
        }
        h.importance[static_cast<size_t>(n)] = sum;
      }
    }
  }

  // Means of what is passed on, and entropies if they are asked for.
  void LookAtFrames(const nn::Network& network, const std::vector<LayerParts>& parts, InputFrames& frames,
                    std::vector<Hidden>& hidden) const {
    for (Hidden& h : hidden) {
      h.mean.assign(static_cast<size_t>(parts[h.above].weight().cols()), 0.0);
      h.importance.assign(static_cast<size_t>(parts[h.below].weight().rows()), 0.0);
    }
    ForLayers(network, Shortcuts::kWhole, frames, [&](size_t i, ConstMatrixView x, ConstMatrixView y) {
      for (Hidden& h : hidden) {
        if (i == h.above) {
          h.mean_frames += static_cast<double>(x.rows());
          AddColumns(
              x, [](float v) { return static_cast<double>(v); }, h.mean);
        }
        // The output of the product and the function above it, which may be computed with it.
        const size_t function = network.begins_range(h.below + 1) ? h.below + 1 : h.below;
        if (i != function) continue;
        h.importance_frames += static_cast<double>(y.size()) / static_cast<double>(h.importance.size());
        const float threshold =
            network.layer(h.below + 1).properties().activation == Activation::kSigmoid ? 0.5f : 0.0f;
        AddColumns(
            y, [threshold](float v) { return v > threshold ? 1.0 : 0.0; }, h.importance);
      }
    });
    for (Hidden& h : hidden) {
      for (double& m : h.mean) m /= std::max(h.mean_frames, 1.0);
      for (double& p : h.importance) {
        p /= std::max(h.importance_frames, 1.0);
        p = p <= 0 || p >= 1 ? 0.0 : -p * std::log2(p) - (1 - p) * std::log2(1 - p);
      }
    }
  }

  // Those beyond sums.size() from the first on again.
  template <class Value>
  static void AddColumns(ConstMatrixView m, Value value, std::vector<double>& sums) {
    for (int64_t r = 0; r < m.rows(); ++r) {
      for (int64_t c = 0; c < m.cols(); ++c) sums[static_cast<size_t>(c) % sums.size()] += value(m(r, c));
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

  // No error: in a search, the same with a larger share follows.
  void WarnIfAllStay(const std::vector<LayerParts>& parts, const std::vector<Hidden>& hidden,
                     const std::vector<int64_t>& sizes) const {
    std::string kept;
    for (size_t h = 0; h < hidden.size(); ++h) {
      if (sizes[h] < std::ssize(hidden[h].importance)) return;
      kept += fmt::format("{}'{}' keeps its {}", kept.empty() ? "" : ", ", parts[hidden[h].below].name, sizes[h]);
    }
    log::Warn(
        "method 'prune-nodes' changes nothing: {}, since as many nodes stay as a multiple of {}. Ask for a larger "
        "prune-nodes.share than {}, or a smaller prune-nodes.multiple{}",
        kept, options_.multiple, options_.share, WeightsThatStay(parts));
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
      const std::vector<int64_t> columns = ColumnsOf(above.weight(), gone, before);
      Matrix& bias = above.tensors.at("bias");
      for (int64_t r = 0; r < bias.cols(); ++r) {
        double sum = 0;
        for (const int64_t c : columns) {
          sum += static_cast<double>(above.weight()(r, c)) * h.mean[static_cast<size_t>(c)];
        }
        bias(0, r) += static_cast<float>(sum);
      }
    }
    above.tensors["weight"] = WithoutColumns(above.weight(), ColumnsOf(above.weight(), kept, before));
    LayerParts& below = parts[h.below];
    below.tensors["weight"] = WithoutRows(below.weight(), kept);
    if (below.tensors.contains("bias")) below.tensors["bias"] = WithoutColumns(below.tensors.at("bias"), kept);
    below.config.Set("dim", std::to_string(size));
    for (size_t i = h.below + 1; i < h.above; ++i) {
      for (auto& [name, tensor] : parts[i].tensors) {
        if (tensor.cols() % before == 0) tensor = WithoutColumns(tensor, ColumnsOf(tensor, kept, before));
      }
    }
    if (size == before && options_.share > 0) {
      return {below.name,
              fmt::format("kept: as many of its {} nodes stay as a multiple of {}", before, options_.multiple)};
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
