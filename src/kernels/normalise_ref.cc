#include "kernels/normalise.h"

namespace antiphon {
namespace {

bool Counts(const uint8_t* counts, int64_t row) { return counts == nullptr || counts[row] != 0; }

void ColumnMomentsRef(ConstMatrixView x, const uint8_t* counts, double* mean, double* squares) {
  for (int64_t c = 0; c < x.cols(); ++c) {
    double n = 0, sum = 0, deviations = 0;
    for (int64_t r = 0; r < x.rows(); ++r) {
      if (!Counts(counts, r)) continue;
      ++n;
      sum += static_cast<double>(x(r, c));
    }
    mean[c] = n > 0 ? sum / n : 0;
    for (int64_t r = 0; r < x.rows(); ++r) {
      const double d = static_cast<double>(x(r, c)) - mean[c];
      if (Counts(counts, r)) deviations += d * d;
    }
    squares[c] = deviations;
  }
}

void CentredSumsRef(ConstMatrixView g, ConstMatrixView x, const uint8_t* counts, const float* mean, MatrixView sums) {
  for (int64_t c = 0; c < x.cols(); ++c) {
    double sum = 0, products = 0;
    for (int64_t r = 0; r < x.rows(); ++r) {
      if (!Counts(counts, r)) continue;
      sum += static_cast<double>(g(r, c));
      products += static_cast<double>(g(r, c)) * (static_cast<double>(x(r, c)) - static_cast<double>(mean[c]));
    }
    sums(0, c) = static_cast<float>(sum);
    sums(1, c) = static_cast<float>(products);
  }
}

void NormaliseRef(ConstMatrixView x, const float* mean, const float* scale, const float* offset, MatrixView y) {
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t c = 0; c < x.cols(); ++c) {
      y(r, c) = scale[c] * (x(r, c) - mean[c]) + (offset != nullptr ? offset[c] : 0.0f);
    }
  }
}

void NormaliseDerivativeRef(ConstMatrixView g, ConstMatrixView x, const uint8_t* counts, const float* mean,
                            const float* scale, const float* a, const float* b, MatrixView dx) {
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t c = 0; c < x.cols(); ++c) {
      dx(r, c) = Counts(counts, r) ? scale[c] * (g(r, c) - a[c] - b[c] * (x(r, c) - mean[c])) : 0.0f;
    }
  }
}

REGISTER_KERNEL(ColumnMomentsOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &ColumnMomentsRef);
REGISTER_KERNEL(CentredSumsOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &CentredSumsRef);
REGISTER_KERNEL(NormaliseOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &NormaliseRef);
REGISTER_KERNEL(NormaliseDerivativeOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &NormaliseDerivativeRef);

}  // namespace
}  // namespace antiphon
