#include "compress/network_parts.h"

#include <algorithm>

#include "base/error.h"

namespace antiphon::compress {
namespace {

bool IsOneOf(const std::string& type, const std::vector<std::string>& types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

void RequireTypes(const std::string& method, const std::vector<LayerParts>& parts,
                  const std::vector<std::string>& types, const std::vector<std::string>& names) {
  for (const LayerParts& layer : parts) {
    if (IsOneOf(layer.type, types) || !IsOneOf(layer.name, names)) continue;
    Throw<UsageError>("method '{}': layer '{}' is '{}', and it takes layers of type {} only: leave it out of {}.layers",
                      method, layer.name, layer.type, fmt::join(types, ", "), method);
  }
}

const char* LeftOut(const LayerChoice& choice) {
  if (choice.skip_first && choice.skip_last) return "the first and the last of them are";
  return choice.skip_first ? "the first of them is" : "the last of them is";
}

}  // namespace

std::vector<std::string> PlainTypes() { return nn::TypesWith({nn::LayerTraits::Product::kPlain}); }

std::vector<size_t> LayersFor(const std::string& method, const std::vector<LayerParts>& parts,
                              const std::vector<std::string>& types, const LayerChoice& choice) {
  RequireTypes(method, parts, types, choice.only);
  std::vector<std::string> names;
  for (const LayerParts& layer : parts) {
    if (IsOneOf(layer.type, types)) names.push_back(layer.name);
  }
  const size_t left_out = choice.only.empty() ? size_t{choice.skip_first} + size_t{choice.skip_last} : 0;
  if (names.empty()) {
    Throw<UsageError>("method '{}' has nothing to work on: the network has no layer of type {}{}", method,
                      fmt::join(types, ", "), WeightsThatStay(parts));
  }
  if (names.size() <= left_out) {
    Throw<UsageError>(
        "method '{}' has nothing to work on: of layers of type {} the network has '{}', and {} left out. Name those "
        "that it is to take ({}.layers=['{}']){}",
        method, fmt::join(types, ", "), fmt::join(names, "', '"), LeftOut(choice), method, names.front(),
        WeightsThatStay(parts));
  }
  return WithContext([&] { return nn::ChooseLayers(parts, types, choice); },
                     [&] { return fmt::format("method '{}'", method); });
}

std::string WeightsThatStay(const std::vector<LayerParts>& parts) {
  std::vector<std::string> stay;
  for (const LayerParts& layer : parts) {
    using enum nn::LayerTraits::Product;
    const bool stays = TraitsOf(layer).product == kNone || TraitsOf(layer).product == kPerFrame;
    const auto is_matrix = [](const auto& tensor) { return tensor.first.ends_with("weight"); };
    if (!stays || std::ranges::none_of(layer.tensors, is_matrix)) continue;
    stay.push_back(fmt::format("'{}' ({})", layer.name, layer.type));
  }
  return stay.empty() ? "" : fmt::format("; the weights inside {} stay as they are", fmt::join(stay, ", "));
}

}  // namespace antiphon::compress
