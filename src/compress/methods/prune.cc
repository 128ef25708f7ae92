// Magnitude pruning: the smallest weights, or blocks of weights with the smallest norm, become 0 and stay so in
// retraining (`sparse-affine` holds the mask).
//
// Thresholds are per layer, or common to all layers chosen (`scope`), where a layer's weights are measured in units of
// their root mean square, so that layers of small weights are not emptied. Blocks go by the root of their mean square.
// Layers that are sparse already are pruned further; their masked weights count as the first to go. The first layer is
// left out unless it is named, being hurt most, and so are layers that cannot be divided into the blocks.
// Source: Yu, Seide, Li, Deng, ICASSP 2012; algorithms reference 2.3.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/options.h"
#include "compress/method.h"
#include "compress/network_parts.h"

namespace antiphon::compress {
namespace {

struct PruneOptions {
  double sparsity = 0.7;
  int block_rows = 1;
  int block_cols = 1;
  std::string scope = "layer";
  bool first = false;
  std::vector<std::string> layers;
  template <class V>
  void Visit(V& v) {
    v("sparsity", sparsity, Range{0, 0.999}, "share of the weights that become 0");
    v("block-rows", block_rows, Range{1, 64}, "outputs of a block that goes as a whole");
    v("block-cols", block_cols, Range{1, 64}, "inputs of a block");
    v("scope", scope, OneOf{{"layer", "network"}}, "the share holds for each layer, or for all together");
    v("first", first, "the lowest layer too");
    v("layers", layers, "names of the layers; empty: all but the first");
  }
};

class Prune : public Method {
 public:
  explicit Prune(const PruneOptions& options) : options_(options) {}
  bool keeps_output() const override { return options_.sparsity == 0; }

  Changes Apply(nn::Model& model, const MethodInput&) const override {
    std::vector<LayerParts> parts = TakeApart(model.network, Shortcuts::kOpened);
    using enum nn::LayerTraits::Product;
    const auto layers =
        LayersFor("prune", parts, nn::TypesWith({kPlain, kMasked}), {options_.layers, !options_.first, false});
    Changes changes;
    std::vector<size_t> divisible;
    std::vector<Matrix> norms;
    for (const size_t i : layers) {
      if (!HasBlocks(parts[i])) {
        changes.push_back({parts[i].name, "kept: no blocks of this size"});
        continue;
      }
      divisible.push_back(i);
      norms.push_back(BlockNorms(parts[i]));
    }
    if (divisible.empty()) {
      std::string sizes;
      for (const size_t i : layers) {
        sizes += fmt::format("{}'{}' is {} x {}", sizes.empty() ? "" : ", ", parts[i].name, parts[i].weight().rows(),
                             parts[i].weight().cols());
      }
      Throw<UsageError>(
          "method 'prune': no layer can be divided into blocks of {} x {} ({}): choose other prune.block-rows and "
          "prune.block-cols",
          options_.block_rows, options_.block_cols, sizes);
    }
    for (size_t k = 0; k < divisible.size(); ++k) {
      const float threshold = Threshold(options_.scope == "layer" ? std::span(&norms[k], 1) : std::span(norms));
      changes.push_back(Mask(parts[divisible[k]], norms[k], threshold));
    }
    model.network = PutTogether(parts, model.network.in_dim());
    return changes;
  }

 private:
  bool HasBlocks(const LayerParts& layer) const {
    return layer.weight().rows() % options_.block_rows == 0 && layer.weight().cols() % options_.block_cols == 0;
  }

  Matrix BlockNorms(const LayerParts& layer) const {
    const Matrix& w = layer.weight();
    const int64_t rows = options_.block_rows;
    const int64_t cols = options_.block_cols;
    Matrix norms(w.rows() / rows, w.cols() / cols);
    double all = 0;
    for (int64_t r = 0; r < w.rows(); ++r) {
      for (int64_t c = 0; c < w.cols(); ++c) {
        norms(r / rows, c / cols) += w(r, c) * w(r, c);
        all += static_cast<double>(w(r, c)) * static_cast<double>(w(r, c));
      }
    }
    const double scale = options_.scope == "layer" || all == 0 ? 1.0 : static_cast<double>(w.size()) / all;
    for (int64_t i = 0; i < norms.size(); ++i) {
      norms.data()[i] = static_cast<float>(std::sqrt(scale * static_cast<double>(norms.data()[i])));
    }
    return norms;
  }

  // Blocks with this norm or a smaller one go; -1 if none does.
  float Threshold(std::span<const Matrix> norms) const {
    std::vector<float> all;
    for (const Matrix& m : norms) all.insert(all.end(), m.data(), m.data() + m.size());
    const auto gone = static_cast<std::ptrdiff_t>(options_.sparsity * static_cast<double>(all.size()));
    if (gone == 0) return -1;
    std::nth_element(all.begin(), all.begin() + gone - 1, all.end());
    return all[static_cast<size_t>(gone - 1)];
  }

  // What has been pruned stays so, what has been rounded too.
  Change Mask(LayerParts& layer, const Matrix& norms, float threshold) const {
    const bool was_sparse = layer.tensors.contains("mask");
    if (was_sparse) threshold = std::max(threshold, 0.0f);
    Config config;
    config.Set("dim", std::to_string(layer.weight().rows()));
    config.Set("block-rows", std::to_string(options_.block_rows));
    config.Set("block-cols", std::to_string(options_.block_cols));
    for (const char* key : {"weight-bits", "input-bits"}) {
      if (was_sparse && layer.config.Has(key)) config.Set(key, *layer.config.AnyAsText(key));
    }
    LayerParts sparse = MakeLayer(layer, layer.name, "sparse-affine", config);
    sparse.tensors["bias"] = BiasOf(layer);
    for (const char* name : {"input_scale", "input_zero"}) {
      if (const auto range = layer.tensors.find(name); range != layer.tensors.end()) {
        sparse.tensors[name] = std::move(range->second);
      }
    }
    Matrix mask(norms.rows(), norms.cols());
    int64_t gone = 0;
    for (int64_t i = 0; i < norms.size(); ++i) {
      mask.data()[i] = norms.data()[i] > threshold ? 1.0f : 0.0f;
      if (mask.data()[i] == 0) ++gone;
    }
    sparse.tensors["weight"] = std::move(layer.tensors.at("weight"));
    sparse.tensors["mask"] = std::move(mask);
    layer = std::move(sparse);
    return {layer.name, fmt::format("{:.1f} % of {} {} are 0",
                                    100.0 * static_cast<double>(gone) / static_cast<double>(norms.size()), norms.size(),
                                    options_.block_rows * options_.block_cols == 1 ? "weights" : "blocks")};
  }

  PruneOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "prune",
                   [](const Config& config) { return std::make_unique<Prune>(ReadOptions<PruneOptions>(config)); });

}  // namespace
}  // namespace antiphon::compress
