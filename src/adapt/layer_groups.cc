#include "adapt/layer_groups.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/suggest.h"
#include "base/toml_text.h"
#include "base/trim.h"

namespace antiphon::adapt {
namespace {

// Layers hand out their parameters for writing only; nothing is written here.
bool HasWeights(const nn::Network& network, size_t i) {
  return !nn::TraitsOf(network, i).batch_statistics && !const_cast<nn::Layer&>(network.layer(i)).parameters().empty();
}

bool Learns(const nn::LayerParts& layer) { return !layer.tensors.empty(); }

double RateOf(const nn::LayerParts& layer) { return layer.config.Real("learning-rate-factor").value_or(1.0); }

std::vector<std::string> NamesBelowOutput(const std::vector<nn::LayerParts>& parts) {
  std::vector<std::string> names;
  for (size_t i = 0; i + 1 < parts.size(); ++i) names.push_back(parts[i].name);
  return names;
}

// What a learning rate acts on: weights, and statistics, which stop at 0.
std::vector<std::string> NamesWithRates(const nn::Network& network) {
  std::vector<std::string> names;
  for (size_t i = 0; i < network.num_layers(); ++i) {
    if (HasWeights(network, i) || nn::TraitsOf(network, i).batch_statistics) names.push_back(network.layer_name(i));
  }
  return names;
}

// "affine1 = 0.1"
std::map<std::string, double> ParseRates(const std::vector<std::string>& rates, const std::vector<std::string>& names) {
  constexpr double kMost = 10000;
  std::map<std::string, double> factors;
  for (const std::string& rate : rates) {
    const size_t sign = rate.rfind('=');
    const std::string name(Trim(std::string_view(rate).substr(0, sign)));
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw UsageError("rates: " + UnknownNameMessage("layer with a learning rate", name, names));
    }
    const std::string_view text = sign == std::string::npos ? "" : Trim(std::string_view(rate).substr(sign + 1));
    double factor = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
    if (error != std::errc() || end != text.data() + text.size() || !(factor >= 0 && factor <= kMost)) {
      Throw<UsageError>("rates: '{}' for layer '{}' is no factor from 0 to {}; expected e.g. '{} = 0.1', for any of {}",
                        text, name, kMost, name, fmt::join(names, ", "));
    }
    if (!factors.emplace(name, factor).second) Throw<UsageError>("rates: layer '{}' is named twice", name);
  }
  return factors;
}

void ScaleRates(const nn::Network& network, const std::vector<std::string>& rates, std::vector<nn::LayerParts>& parts,
                std::vector<Change>& changes) {
  const std::map<std::string, double> factors = ParseRates(rates, NamesWithRates(network));
  for (nn::LayerParts& layer : parts) {
    const auto found = factors.find(layer.name);
    if (found == factors.end()) continue;
    if (RateOf(layer) == 0 && found->second != 0) {
      Throw<UsageError>("rates: layer '{}' is frozen, so that no factor makes it learn: choose other layers to learn",
                        layer.name);
    }
    if (found->second == 1) continue;
    ScaleRate(layer, found->second);
    changes.push_back({layer.name, found->second == 0 ? "frozen by its own rate"
                                                      : fmt::format("its own learning rate × {:.4g}", found->second)});
  }
}

// Statistics of the layer, and of chains inside it, stay as they are.
void FreezeStatistics(Config& layer) {
  if (nn::TraitsOf(layer.Text("type").value_or("")).batch_statistics) layer.Set("learning-rate-factor", "0");
  nn::ChangeChains(layer, [](std::vector<Config>& chain) {
    for (Config& each : chain) FreezeStatistics(each);
  });
}

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
  layer.config.Set("learning-rate-factor", fmt::format("{}", RateOf(layer) * factor));
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
  if (options.statistics == "old") {
    for (nn::LayerParts& layer : parts) FreezeStatistics(layer.config);
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
  ScaleRates(network, options.rates, parts, changes);
  const bool any = std::any_of(groups.begin(), groups.end(),
                               [&](const LayerGroup& group) { return RateOf(parts[group.first]) != 0; });
  if (!any) throw UsageError("all layers with weights have a learning rate of 0, so that nothing can learn");
}

nn::LayerParts NewLayer(const std::string& name, const std::string& type, const std::string& options, double rate) {
  nn::LayerParts layer{name, type, Config::Parse(options, type), {}};
  layer.config.Set("type", TomlString(type));
  layer.config.Set("name", TomlString(name));
  if (rate != 1) layer.config.Set("learning-rate-factor", fmt::format("{}", rate));
  return layer;
}

void InsertFrameTransform(const nn::Model& model, double rate, std::vector<nn::LayerParts>& parts) {
  if (model.feature_dim < 1) throw UsageError("the model does not say how many features a frame has");
  parts.insert(parts.begin(),
               NewLayer(nn::FreeName(parts, "lin"), "frame-affine", fmt::format("dim = {}", model.feature_dim), rate));
}

std::vector<size_t> HiddenOutputs(const std::vector<nn::LayerParts>& parts, const std::vector<std::string>& only,
                                  std::string_view key) {
  std::vector<size_t> found;
  std::vector<std::string> names;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (only.empty() && !TraitsOf(parts[i]).nonlinearity) continue;
    names.push_back(parts[i].name);
    if (only.empty() || std::find(only.begin(), only.end(), parts[i].name) != only.end()) found.push_back(i);
  }
  for (const std::string& name : only) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw UsageError(UnknownNameMessage("hidden layer", name, names));
    }
  }
  if (parts.size() < 2) throw UsageError("the network has no hidden layer, only its output layer");
  if (found.empty()) {
    Throw<UsageError>("the network has no hidden layer with an activation: name a layer with `{}`, of {}", key,
                      fmt::join(NamesBelowOutput(parts), ", "));
  }
  return found;
}

}  // namespace antiphon::adapt
