#include "nn/parameter.h"

#include <algorithm>

#include "kernels/elementwise.h"

namespace antiphon::nn {

ConstBf16View Parameter::Bf16Value() const {
  if (!shadow_valid_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(shadow_mutex_);
    if (!shadow_valid_.load(std::memory_order_relaxed)) {
      shadow_.Resize(value.rows(), value.cols());
      ConvertToBf16(1.0f, value, shadow_);
      shadow_valid_.store(true, std::memory_order_release);
    }
  }
  return shadow_.view();
}

Bf16View Parameter::MutableBf16Value() {
  return shadow_valid_.load(std::memory_order_acquire) ? shadow_.view() : Bf16View();
}

void Parameter::MoveTo(float* memory, int64_t new_offset) {
  if (value.size() > 0) std::copy_n(value.data(), value.size(), memory);
  value = MatrixView(memory, value.rows(), value.cols());
  offset = new_offset;
  storage_ = Matrix();
}

}  // namespace antiphon::nn
