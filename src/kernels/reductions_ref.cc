#include "kernels/reductions.h"
#include "kernels/shapes.h"

namespace antiphon {
namespace {

void ColumnSumsRef(float scale, ConstMatrixView x, const float* weights, float accumulate, MatrixView sums) {
  ExpectSameShape("column sums", ConstMatrixView(nullptr, 1, x.cols()), sums);
  for (int64_t c = 0; c < x.cols(); ++c) {
    double sum = 0;
    for (int64_t r = 0; r < x.rows(); ++r) {
      sum += static_cast<double>(x(r, c)) * (weights != nullptr ? static_cast<double>(weights[r]) : 1.0);
    }
    const float scaled = scale * static_cast<float>(sum);
    sums(0, c) = accumulate == 0 ? scaled : scaled + accumulate * sums(0, c);
  }
}

double SumSquaresRef(ConstMatrixView x) {
  double sum = 0;
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (const float v : x.Row(r)) sum += static_cast<double>(v) * static_cast<double>(v);
  }
  return sum;
}

void RowSquaresRef(ConstMatrixView x, double* sums) {
  for (int64_t r = 0; r < x.rows(); ++r) sums[r] = SumSquaresRef(x.Rows(r, 1));
}

REGISTER_KERNEL(ColumnSumsOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &ColumnSumsRef);
REGISTER_KERNEL(SumSquaresOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &SumSquaresRef);
REGISTER_KERNEL(RowSquaresOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &RowSquaresRef);

}  // namespace
}  // namespace antiphon
