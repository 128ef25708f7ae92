#include "train/dead_units.h"

#include <fmt/format.h>

#include <string_view>

namespace antiphon::train {
namespace {

constexpr int64_t kOneOf = 10;  // a few dead units are usual

// A parameter's name is its layer's, a dot, and its own.
std::string_view LayerNameOf(const nn::Parameter& parameter) {
  return std::string_view(parameter.name).substr(0, parameter.name.rfind('.'));
}

}  // namespace

std::vector<std::string> DescribeDeadUnits(const nn::Network& network) {
  std::vector<nn::StillInputs> layers;
  network.ListStillUnits(layers);
  std::vector<std::string> lines;
  for (const auto& [statistics, still, all] : layers) {
    if (still * kOneOf <= all) continue;
    lines.push_back(
        fmt::format("layer {}: {} of {} units are dead (their outputs do not vary); less weight decay or a lower rate "
                    "keeps them alive",
                    LayerNameOf(*statistics), still, all));
  }
  return lines;
}

}  // namespace antiphon::train
