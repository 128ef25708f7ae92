// What stands between a network's shared layers and one of its output layers:
//   z = BN(B·BN(relu(A·x + b))),  B·Bᵀ = α²·I
//
// Written for "affine", "relu", "batch-norm", "linear" with `orthonormal` and "batch-norm": an output layer of
// thousands of senones then has a few hundred inputs. Keys of all layers (learning-rate-factor …) go to the affine and
// linear ones. Source: Kaldi's prefinal-layer; Povey et al., Interspeech 2018.
#include <fmt/format.h>

#include "base/toml_text.h"
#include "nn/layers/largest_dim.h"
#include "nn/network.h"

namespace antiphon::nn {
namespace {

struct PrefinalOptions {
  int dim = 0;
  int bottleneck = 0;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{1, kLargestDim}, "hidden units");
    v("bottleneck", bottleneck, Range{1, kLargestDim}, "number of outputs");
  }
};

std::unique_ptr<LayerExpansion> ExpandPrefinal(const Config& table) {
  const auto options = ReadOptions<PrefinalOptions>(table, kCommonLayerKeys);
  const std::string types[] = {"affine", "relu", "batch-norm", "linear", "batch-norm"};
  const std::string suffixes[] = {".affine", ".relu", ".batch-norm", ".linear", ""};
  auto expansion = std::make_unique<LayerExpansion>();
  for (size_t i = 0; i < std::size(types); ++i) {
    Config layer = Config::Parse("type = \"" + types[i] + "\"", table.Where());
    if (const auto name = table.Text("name")) layer.Set("name", TomlString(*name + suffixes[i]));
    const bool product = types[i] == "affine" || types[i] == "linear";
    if (product) layer.Set("dim", std::to_string(types[i] == "affine" ? options.dim : options.bottleneck));
    if (types[i] == "linear") layer.Set("orthonormal", "true");
    for (const std::string& key : kCommonLayerKeys) {
      if (key != "type" && key != "name" && product && table.Has(key)) layer.Set(key, *table.AnyAsText(key));
    }
    expansion->layers.push_back(layer);
  }
  return expansion;
}

REGISTER_COMPONENT(LayerExpansionRegistry, "prefinal", &ExpandPrefinal);

}  // namespace
}  // namespace antiphon::nn
