#include "nn/layer_traits.h"

#include <map>

#include "nn/network.h"

namespace antiphon::nn {
namespace {

const std::map<std::string, LayerTraits, std::less<>>& All() {
  static const auto all = [] {
    std::map<std::string, LayerTraits, std::less<>> traits;
    for (const std::string& type : LayerTraitsRegistry::Get().Names()) {
      traits.emplace(type, *LayerTraitsRegistry::Get().Create(type));
    }
    return traits;
  }();
  return all;
}

}  // namespace

std::function<std::unique_ptr<LayerTraits>()> Traits(const LayerTraits& traits) {
  return [traits] { return std::make_unique<LayerTraits>(traits); };
}

const LayerTraits& TraitsOf(std::string_view type) {
  static const LayerTraits none;
  const auto found = All().find(type);
  return found == All().end() ? none : found->second;
}

const LayerTraits& TraitsOf(const Network& network, size_t i) { return TraitsOf(network.layer_type(i)); }

std::vector<std::string> TypesWith(const std::vector<LayerTraits::Product>& products) {
  std::vector<std::string> types;
  for (const LayerTraits::Product product : products) {
    for (const auto& [type, traits] : All()) {
      if (traits.product == product) types.push_back(type);
    }
  }
  return types;
}

}  // namespace antiphon::nn
