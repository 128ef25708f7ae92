// Factorised time-delay layer: a product of two low-rank matrices, the lower one kept semi-orthogonal, with a shortcut:
//   y_t = f(A·[B·[x_{t−s}; x_t]; B·[x_t; x_{t+s}]] + b) + bypass·x_t,  B·Bᵀ = α²·I
//
// Written for a "residual" around "splice", "linear" with `orthonormal`, "splice", "affine", "relu" and "batch-norm";
// without the shortcut if the number of outputs is another than that of inputs.
// Source: Povey et al., Semi-orthogonal low-rank matrix factorization for deep neural networks, Interspeech 2018.
#include <fmt/format.h>

#include "base/toml_text.h"
#include "nn/layers/largest_dim.h"
#include "nn/network.h"

namespace antiphon::nn {
namespace {

struct TdnnFOptions {
  int dim = 0;
  int bottleneck = 0;
  int time_stride = 1;
  double bypass = 0.66;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{1, kLargestDim}, "number of outputs");
    v("bottleneck", bottleneck, Range{1, kLargestDim}, "rank of the product");
    v("time-stride", time_stride, Range{0, 1000}, "frames between the two that each factor sees; 0: one frame");
    v("bypass", bypass, Range{0, 1e6}, "factor of the shortcut; 0: none");
  }
};

std::unique_ptr<LayerExpansion> ExpandTdnnF(const Config& table) {
  const auto options = ReadOptions<TdnnFOptions>(table, kCommonLayerKeys);
  const auto splice = [&](int first, int last) {
    return first == last ? std::string()
                         : fmt::format("[[layer]]\ntype = \"splice\"\noffsets = [{}, {}]\n", first, last);
  };
  const std::string chain = fmt::format(
      "{}[[layer]]\ntype = \"linear\"\ndim = {}\northonormal = true\n"
      "{}[[layer]]\ntype = \"affine\"\ndim = {}\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"batch-norm\"\n",
      splice(-options.time_stride, 0), options.bottleneck, splice(0, options.time_stride), options.dim);
  auto expansion = std::make_unique<LayerExpansion>();
  expansion->layers = Config::Parse(chain, table.Where()).Tables("layer");
  if (options.bypass == 0) return expansion;
  Config residual = Config::Parse("type = \"residual\"", table.Where());
  if (const auto name = table.Text("name")) residual.Set("name", TomlString(*name));
  residual.Set("scale", fmt::format("{}", options.bypass));
  residual.Set("layers", InlineTomlTables(expansion->layers));
  expansion->layers = {residual};
  return expansion;
}

REGISTER_COMPONENT(LayerExpansionRegistry, "tdnn-f", &ExpandTdnnF);

}  // namespace
}  // namespace antiphon::nn
