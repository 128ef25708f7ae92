// Factorised time-delay layer: a product of two low-rank matrices, the lower one kept semi-orthogonal, with a shortcut:
//   y_t = f(A·[B·[x_{t−s}; x_t]; B·[x_t; x_{t+s}]] + b) + bypass·x_t,  B·Bᵀ = α²·I
//
// Written for a "residual" around "splice", "linear" with `orthonormal`, "splice", "affine", "relu", "batch-norm" and,
// with `dropout`, "dropout" of one continuous mask per chunk; without the shortcut with `bypass` = 0, which the layer
// needs if it has another number of outputs than of inputs: then the upper factor has the layer's name. With `stride` K
// the layer gives every K-th frame only: the upper factor, and all layers above, are computed there alone; offsets of
// layers above count in these frames.
// Source: Povey et al., Semi-orthogonal low-rank matrix factorization for deep neural networks, Interspeech 2018.
#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/toml_text.h"
#include "nn/layers/largest_dim.h"
#include "nn/network.h"

namespace antiphon::nn {
namespace {

struct TdnnFOptions {
  int dim = 0;
  int bottleneck = 0;
  int time_stride = 1;
  int stride = 1;
  double bypass = 0.66;
  double dropout = 0.0;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{1, kLargestDim}, "number of outputs");
    v("bottleneck", bottleneck, Range{1, kLargestDim}, "rank of the product");
    v("time-stride", time_stride, Range{0, 1000}, "frames between the two that each factor sees; 0: one frame");
    v("stride", stride, Range{1, 100}, "give an output for every so many frames only");
    v("bypass", bypass, Range{0, 1e6}, "factor of the shortcut; 0: none");
    v("dropout", dropout, Range{0, 0.5},
      "p of a dropout by factors from 1 - 2p to 1 + 2p, the same for all frames of a chunk; 0: none");
  }
};

std::string SpliceToml(int first, int last, int stride) {
  if (first == last && stride == 1) return "";
  const std::string offsets = first == last ? fmt::format("{}", first) : fmt::format("{}, {}", first, last);
  return fmt::format("[[layer]]\ntype = \"splice\"\noffsets = [{}]\nstride = {}\n", offsets, stride);
}

std::unique_ptr<LayerExpansion> ExpandTdnnF(const Config& table) {
  const auto options = ReadOptions<TdnnFOptions>(table, kCommonLayerKeys);
  // Of one frame, both factors are computed where outputs are.
  const bool one_frame = options.time_stride == 0;
  const std::string chain = fmt::format(
      "{}[[layer]]\ntype = \"linear\"\ndim = {}\northonormal = true\n"
      "{}[[layer]]\ntype = \"affine\"\ndim = {}\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"batch-norm\"\n{}",
      SpliceToml(-options.time_stride, 0, one_frame ? options.stride : 1), options.bottleneck,
      SpliceToml(0, options.time_stride, one_frame ? 1 : options.stride), options.dim,
      options.dropout > 0 ? fmt::format("[[layer]]\ntype = \"dropout\"\nproportion = {}\nper-chunk = true\n"
                                        "continuous = true\n",
                                        options.dropout)
                          : "");
  auto expansion = std::make_unique<LayerExpansion>();
  expansion->layers = Config::Parse(chain, table.Where()).Tables("layer");
  const auto pass_on = [&](Config& to) {
    for (const std::string& key : kCommonLayerKeys) {
      if (key != "type" && key != "name" && table.Has(key)) to.Set(key, *table.AnyAsText(key));
    }
  };
  const std::optional<std::string> name = table.Text("name");
  if (options.bypass == 0) {
    for (Config& layer : expansion->layers) {
      pass_on(layer);
      const std::string type = *layer.Text("type");
      if (name && (type == "linear" || type == "affine")) {
        layer.Set("name", TomlString(type == "affine" ? *name : *name + ".linear"));
      }
    }
    return expansion;
  }
  Config residual = Config::Parse("type = \"residual\"", table.Where());
  if (name) residual.Set("name", TomlString(*name));
  residual.Set("scale", fmt::format("{}", options.bypass));
  pass_on(residual);
  residual.Set("layers", InlineTomlTables(expansion->layers));
  expansion->layers = {residual};
  return expansion;
}

REGISTER_COMPONENT(LayerExpansionRegistry, "tdnn-f", &ExpandTdnnF);

}  // namespace
}  // namespace antiphon::nn
