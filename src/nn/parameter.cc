#include "nn/parameter.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "kernels/elementwise.h"

namespace antiphon::nn {
namespace {

thread_local int64_t values_left = std::numeric_limits<int64_t>::max();

Matrix LimitedMatrix(const std::string& name, int64_t rows, int64_t cols) {
  if (rows > 0 && cols > values_left / rows) {
    Throw<InputError>("'{}' would have {} x {} values, more than there are: the description is wrong", name, rows,
                      cols);
  }
  values_left -= rows * cols;
  return {rows, cols};
}

}  // namespace

ScopedParameterLimit::ScopedParameterLimit(int64_t num_values) : outer_(std::exchange(values_left, num_values)) {}

ScopedParameterLimit::~ScopedParameterLimit() { values_left = outer_; }

Parameter::Parameter(std::string its_name, int64_t rows, int64_t cols)
    : name(std::move(its_name)), storage_(LimitedMatrix(name, rows, cols)) {
  value = storage_.view();
  whole = {rows, cols, 0};
}

void Parameter::Constrain(int64_t first_row, MatrixView rows) const {
  if (limit > 0) {
    for (int64_t r = 0; r < rows.rows(); ++r) {
      for (float& v : rows.Row(r)) v = std::clamp(v, -limit, limit);
    }
  }
  if (mask == nullptr) return;
  const int64_t block_rows = value.rows() / mask->value.rows();
  const int64_t block_cols = value.cols() / mask->value.cols();
  for (int64_t r = 0; r < rows.rows(); ++r) {
    const float* keep = mask->value.Row((first_row + r) / block_rows).data();
    float* v = rows.Row(r).data();
    for (int64_t b = 0; b < mask->value.cols(); ++b, v += block_cols) {
      if (keep[b] == 0) std::fill_n(v, block_cols, 0.0f);
    }
  }
}

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
