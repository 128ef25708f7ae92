#include "nn/parameter.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/linear_combinations.h"
#include "kernels/parallel.h"

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
  if (mask == nullptr || rows.empty()) return;
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
  return bf16_.Fresh([&](Bf16Matrix& copy) {
    copy.Resize(value.rows(), value.cols());
    ConvertToBf16(1.0f, value, copy);
  });
}

// The first and the last factor are the first and the last tap themselves: at zero and at infinity.
ConstMatrixView Parameter::FilteredValue(const MinimalFilter& filter, int product) const {
  CHECK(value.cols() % filter.taps == 0) << value.cols() << " / " << filter.taps;
  const int64_t rows = value.rows(), cols = value.cols() / filter.taps;
  if (product == 0) return value.Cols(0, cols);
  if (product + 1 == filter.products) return value.Cols((filter.taps - 1) * cols, cols);
  const int sums = filter.products - 2;
  const ConstMatrixView all = filtered_.Fresh([&](Matrix& copy) {
    copy.Resize(sums * rows, cols);
    ParallelRanges(rows, sums * cols, 1, [&](int64_t first, int64_t last) {
      std::array<const float*, MinimalFilter::kMostTaps> in{};
      std::array<float*, MinimalFilter::kMostProducts> out{};
      for (int64_t r = first; r < last; ++r) {
        for (int k = 0; k < filter.taps; ++k) in[static_cast<size_t>(k)] = value.Row(r).data() + k * cols;
        for (int p = 0; p < sums; ++p) out[static_cast<size_t>(p)] = copy.Row(p * rows + r).data();
        LinearCombinations({.inputs = filter.taps,
                            .outputs = sums,
                            .coefficients = filter.of_taps.data() + filter.taps,
                            .in = in.data(),
                            .out = out.data(),
                            .size = cols});
      }
    });
  });
  CHECK_EQ(all.rows(), sums * rows) << "another filter";
  return all.Rows((product - 1) * rows, rows);
}

Bf16View Parameter::BeginUpdate() {
  filtered_.valid.store(false, std::memory_order_release);
  return bf16_.valid.load(std::memory_order_acquire) ? bf16_.values.view() : Bf16View();
}

void Parameter::MoveTo(float* memory, int64_t new_offset) {
  if (value.size() > 0) std::copy_n(value.data(), value.size(), memory);
  value = MatrixView(memory, value.rows(), value.cols());
  offset = new_offset;
  storage_ = Matrix();
}

}  // namespace antiphon::nn
