#include "recipe/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace antiphon::recipe {
namespace {

int Rounded(double value, int multiple, int min, int max) {
  return std::clamp(static_cast<int>(std::lround(value / multiple)) * multiple, min, max);
}

}  // namespace

ModelSizes SizesFor(double hours) {
  CHECK(hours > 0);
  ModelSizes sizes;
  sizes.hours = hours;
  sizes.leaves = Rounded(900.0 * std::pow(hours, 0.6), 8, 96, 10000);
  sizes.gaussians = 7 * sizes.leaves;
  sizes.mono_gaussians = Rounded(600.0 * std::pow(hours, 0.4), 50, 250, 1000);
  sizes.hidden_dim = Rounded(370.0 * std::pow(hours, 0.25), 64, 256, 2048);
  sizes.hidden_layers = hours < 0.5 ? 3 : hours < 2 ? 4 : hours < 50 ? 5 : 6;
  sizes.epochs = Rounded(6.0 / std::sqrt(hours), 1, 2, 12);
  sizes.chain_dim = Rounded(512.0 * std::pow(hours, 0.25), 64, 256, 1536);
  sizes.chain_bottleneck = Rounded(sizes.chain_dim / 8.0, 16, 32, 192);
  sizes.chain_layers = hours < 0.5 ? 4 : hours < 2 ? 6 : 8;
  sizes.chain_epochs = Rounded(30.0 / std::sqrt(hours), 1, 12, 40);
  return sizes;
}

std::vector<std::pair<const char*, int>> NumbersOf(const ModelSizes& sizes) {
  return {{"leaves", sizes.leaves},
          {"gaussians", sizes.gaussians},
          {"mono_gaussians", sizes.mono_gaussians},
          {"hidden_dim", sizes.hidden_dim},
          {"hidden_layers", sizes.hidden_layers},
          {"epochs", sizes.epochs},
          {"chain_dim", sizes.chain_dim},
          {"chain_bottleneck", sizes.chain_bottleneck},
          {"chain_layers", sizes.chain_layers},
          {"chain_epochs", sizes.chain_epochs}};
}

std::string ToToml(const ModelSizes& sizes) {
  std::string toml = fmt::format("hours = {:.4f}\n", sizes.hours);
  for (const auto& [name, value] : NumbersOf(sizes)) toml += fmt::format("{} = {}\n", name, value);
  return toml;
}

}  // namespace antiphon::recipe
