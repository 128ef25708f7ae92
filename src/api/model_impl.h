// The network behind a public Model, for what is made of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "antiphon/model.h"
#include "api/internal.h"
#include "infer/nnet_scorer.h"
#include "math/matrix.h"

namespace antiphon {

struct ANTIPHON_INTERNAL Model::Impl {
  explicit Impl(const std::string& file);

  std::string layers;  // as TOML; what computes keeps no description of them
  int64_t num_parameters = 0;
  std::shared_ptr<const infer::NnetModel> network;
};

/// One frame per row; ShapeError if `features` are no whole number of frames.
ConstMatrixView FramesOf(std::span<const float> features, const infer::NnetModel& network);

}  // namespace antiphon
