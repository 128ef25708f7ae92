#include "adapt/restore.h"

#include <algorithm>
#include <map>

#include "base/toml_text.h"
#include "nn/network_parts.h"

namespace antiphon::adapt {

void Restore(nn::Model& adapted, const nn::Model& original) {
  std::map<std::string, Config> before;
  for (const nn::LayerParts& layer : nn::TakeApart(original.network)) before.emplace(layer.name, layer.config);
  std::vector<nn::LayerParts> parts = nn::TakeApart(adapted.network);
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto found = before.find(parts[i].name);
    // The layer's own keys as they are: a new output layer has another size than the old one.
    Config config = adapted.network.layer(i).ToConfig();
    config.Set("type", TomlString(parts[i].type));
    config.Set("name", TomlString(parts[i].name));
    for (const char* key : {"learning-rate-factor", "weight-decay-factor", "max-change"}) {
      const auto value = found == before.end() ? std::nullopt : found->second.Real(key);
      if (value) config.Set(key, fmt::format("{}", *value));
    }
    // Layers inside, which keep their shapes.
    for (const char* key : {"layers", "members"}) {
      if (found == before.end() || !found->second.Has(key)) continue;
      config.Set(key, InlineTomlTables(found->second.Tables(key)));
    }
    parts[i].config = config;
  }
  adapted.network = nn::PutTogether(parts, adapted.network.in_dim());
  RemoveSideTasks(adapted.network);
}

void RemoveSideTasks(nn::Network& network) {
  std::vector<nn::LayerParts> parts = nn::TakeApart(network);
  if (std::erase_if(parts, [](const nn::LayerParts& layer) { return TraitsOf(layer).auxiliary; }) == 0) return;
  network = nn::PutTogether(parts, network.in_dim());
}

}  // namespace antiphon::adapt
