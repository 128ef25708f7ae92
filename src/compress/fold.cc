#include "compress/fold.h"

#include <algorithm>

#include "nn/diagonal.h"

namespace antiphon::compress {
namespace {

// Its weights stand in the file as they are computed with.
bool TakesIt(const LayerParts& layer) {
  using enum nn::LayerTraits::Product;
  return TraitsOf(layer).product == kPlain || TraitsOf(layer).product == kMasked;
}

void ScaleRows(LayerParts& layer, std::span<const float> scale) {
  Matrix bias = BiasOf(layer);
  Matrix& weight = layer.tensors.at("weight");
  for (int64_t o = 0; o < weight.rows(); ++o) {
    for (float& w : weight.Row(o)) w *= scale[o];
    bias(0, o) *= scale[o];
  }
  if (layer.tensors.contains("bias")) layer.tensors["bias"] = std::move(bias);
}

void AddToInputs(LayerParts& layer, std::span<const float> offset) {
  Matrix bias = BiasOf(layer);
  if (!layer.tensors.contains("bias")) {
    Config config;
    config.Set("dim", std::to_string(layer.weight().rows()));
    Matrix weight = std::move(layer.tensors.at("weight"));
    layer = MakeLayer(layer, layer.name, "affine", config);
    layer.tensors["weight"] = std::move(weight);
  }
  const Matrix& weight = layer.weight();
  for (int64_t o = 0; o < weight.rows(); ++o) {
    double sum = 0;
    for (int64_t i = 0; i < weight.cols(); ++i) sum += static_cast<double>(weight(o, i)) * offset[i];
    bias(0, o) += static_cast<float>(sum);
  }
  layer.tensors["bias"] = std::move(bias);
}

}  // namespace

std::vector<std::string> FoldNormalization(const nn::Network& network, std::vector<LayerParts>& parts) {
  std::vector<std::string> folded;
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    if (!TraitsOf(parts[i]).batch_statistics) continue;
    size_t below = i - 1, above = i + 1;
    while (below > 0 && TraitsOf(parts[below]).scale_passes) --below;
    while (above + 1 < parts.size() && TraitsOf(parts[above]).drops_units) ++above;
    if (!TakesIt(parts[below]) || !TakesIt(parts[above])) continue;
    const Matrix values = nn::OffsetAndScale(network.layer(i));
    const auto scale = values.Row(1);
    if (!std::all_of(scale.begin(), scale.end(), [](float s) { return s > 0; })) continue;
    ScaleRows(parts[below], scale);
    AddToInputs(parts[above], values.Row(0));
    folded.push_back(parts[i].name);
  }
  std::erase_if(parts, [&](const LayerParts& layer) {
    return std::find(folded.begin(), folded.end(), layer.name) != folded.end();
  });
  return folded;
}

}  // namespace antiphon::compress
