#include "adapt/layer_groups.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/suggest.h"

namespace antiphon::adapt {
namespace {

// Layers hand out their parameters for writing only; nothing is written here.
bool HasWeights(const nn::Network& network, size_t i) {
  return network.layer_type(i) != "batch-norm" && !const_cast<nn::Layer&>(network.layer(i)).parameters().empty();
}

bool Learns(const nn::LayerParts& layer) { return !layer.tensors.empty(); }

}  // namespace

std::vector<LayerGroup> GroupLayers(const nn::Network& network) {
  std::vector<LayerGroup> groups;
  for (size_t i = 0; i < network.num_layers(); ++i) {
    if (HasWeights(network, i)) groups.push_back({i, i});
    if (!groups.empty()) groups.back().last = i + 1;
  }
  return groups;
}

void ScaleRate(nn::LayerParts& layer, double factor) {
  if (!Learns(layer)) return;
  const double rate = layer.config.Real("learning-rate-factor").value_or(1.0);
  layer.config.Set("learning-rate-factor", fmt::format("{}", rate * factor));
}

void FreezeAll(std::vector<nn::LayerParts>& parts) {
  for (nn::LayerParts& layer : parts) ScaleRate(layer, 0);
}

void ChooseLearning(const nn::Network& network, const LayerChoiceOptions& options, std::vector<nn::LayerParts>& parts,
                    std::vector<Change>& changes) {
  const std::vector<LayerGroup> groups = GroupLayers(network);
  const size_t count = options.train == "all" ? groups.size() : static_cast<size_t>(options.layers);
  if (groups.empty()) throw UsageError("the network has no layer with weights, so that nothing can learn");
  if (count > groups.size()) {
    Throw<UsageError>("the network has {} layers with weights, of which {} cannot learn", groups.size(), count);
  }
  const size_t first = options.train == "bottom" ? 0 : groups.size() - count;
  for (nn::LayerParts& layer : parts) {
    if (layer.type == "batch-norm" && options.statistics == "old") ScaleRate(layer, 0);
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    const bool learns = g >= first && g < first + count;
    const auto below = static_cast<double>(first + count - 1) - static_cast<double>(g);
    const double factor = learns ? std::pow(options.rate_below, below) : 0.0;
    if (factor == 1) continue;
    for (size_t i = groups[g].first; i < groups[g].last; ++i) ScaleRate(parts[i], factor);
    changes.push_back(
        {parts[groups[g].first].name, learns ? fmt::format("learning rate × {:.4g}", factor) : std::string("frozen")});
  }
}

nn::LayerParts NewLayer(const std::string& name, const std::string& type, const std::string& options, double rate) {
  nn::LayerParts layer{name, type, Config::Parse(options, type), {}};
  layer.config.Set("type", "\"" + type + "\"");
  layer.config.Set("name", "\"" + name + "\"");
  if (rate != 1) layer.config.Set("learning-rate-factor", fmt::format("{}", rate));
  return layer;
}

std::string FreeName(const std::vector<nn::LayerParts>& parts, const std::string& base) {
  for (int i = 1;; ++i) {
    const std::string name = fmt::format("{}{}", base, i);
    if (std::none_of(parts.begin(), parts.end(), [&](const auto& layer) { return layer.name == name; })) return name;
  }
}

void InsertFrameTransform(const nn::Model& model, double rate, std::vector<nn::LayerParts>& parts) {
  if (model.feature_dim < 1) throw UsageError("the model does not say how many features a frame has");
  parts.insert(parts.begin(),
               NewLayer(FreeName(parts, "lin"), "frame-affine", fmt::format("dim = {}", model.feature_dim), rate));
}

std::vector<size_t> HiddenOutputs(const std::vector<nn::LayerParts>& parts, const std::vector<std::string>& only) {
  std::vector<size_t> found;
  std::vector<std::string> names;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const std::string& type = parts[i].type;
    if (only.empty() && type != "relu" && type != "sigmoid" && type != "tanh" && type != "p-norm") continue;
    names.push_back(parts[i].name);
    if (only.empty() || std::find(only.begin(), only.end(), parts[i].name) != only.end()) found.push_back(i);
  }
  for (const std::string& name : only) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw UsageError(UnknownNameMessage("hidden layer", name, names));
    }
  }
  if (found.empty()) throw UsageError("the network has no hidden layer with an activation: name layers with `layers`");
  return found;
}

}  // namespace antiphon::adapt
