// A model of speech and other sound for tests: what is loud is speech.
#pragma once

#include <algorithm>
#include <filesystem>

#include "base/config.h"
#include "nn/model.h"

namespace antiphon::testing {

constexpr int kVadBins = 4;
constexpr int kVadRateHz = 8000;

/// Frames whose mean log energy per filter is above `threshold` are speech: 15 lies between samples of some tens and
/// of some thousands.
inline nn::Model LoudnessModel(float threshold = 15.0F) {
  nn::Model model;
  model.feature_config = "kind = 'fbank'\nsample-rate = 8000\nmel-bins = 4\n";
  model.feature_dim = kVadBins;
  model.network = nn::Network(Config::Parse("layer = [{type = 'affine'}]", "vad.toml"), kVadBins, 2, 1);
  for (nn::Parameter* parameter : model.network.parameters()) {
    const MatrixView value = parameter->value;
    for (int64_t r = 0; r < value.rows(); ++r) std::ranges::fill(value.Row(r), 0.0F);
    if (value.rows() == 2) {
      std::ranges::fill(value.Row(1), 1.0F / kVadBins);
    } else {
      value(0, 1) = -threshold;
    }
  }
  model.network.MarkChanged();
  return model;
}

}  // namespace antiphon::testing
