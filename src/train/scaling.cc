#include "train/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace antiphon::train {
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
  return sizes;
}

std::string ToToml(const ModelSizes& sizes) {
  return fmt::format(
      "hours = {:.4f}\nleaves = {}\ngaussians = {}\nmono_gaussians = {}\nhidden_dim = {}\nhidden_layers = {}\nepochs = "
      "{}\n",
      sizes.hours, sizes.leaves, sizes.gaussians, sizes.mono_gaussians, sizes.hidden_dim, sizes.hidden_layers,
      sizes.epochs);
}

}  // namespace antiphon::train
