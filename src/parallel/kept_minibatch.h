// A minibatch that a worker keeps for itself: samples of Hessian-free training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/strategy.h"

namespace antiphon::parallel {

struct KeptMinibatch {
  /// Copies features and pdf-ids.
  explicit KeptMinibatch(const StepInput& input);
  KeptMinibatch(const SafetensorsReader& reader, const std::string& prefix);
  void Save(SafetensorsWriter& writer, const std::string& prefix) const;
  nn::LossTargets targets() const;

  Matrix features;
  std::vector<int32_t> pdf_ids;
  std::vector<float> weights;  // empty: all 1
};

}  // namespace antiphon::parallel
