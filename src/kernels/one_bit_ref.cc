#include <algorithm>

#include "kernels/one_bit.h"

namespace antiphon {
namespace {

uint8_t* Byte(uint8_t* bits, int64_t rows, int64_t cols, int64_t r, int64_t c) {
  const int64_t first = c / kOneBitStrip * kOneBitStrip;
  const int64_t row_bytes = (std::min(kOneBitStrip, cols - first) + 7) / 8;
  return bits + OneBitBytes(rows, first) + r * row_bytes + (c - first) / 8;
}

void EncodeRef(ConstMatrixView x, MatrixView remainder, MatrixView means, uint8_t* bits) {
  const int64_t n = x.rows();
  const int64_t m = x.cols();
  std::fill_n(bits, OneBitBytes(n, m), uint8_t{0});
  for (int64_t c = 0; c < m; ++c) {
    double sum[2] = {0, 0};
    int64_t count[2] = {0, 0};
    for (int64_t r = 0; r < n; ++r) {
      const float u = remainder(r, c) = x(r, c) + remainder(r, c);
      const int bit = u >= 0 ? 1 : 0;
      sum[bit] += static_cast<double>(u);
      ++count[bit];
      *Byte(bits, n, m, r, c) |= static_cast<uint8_t>(bit << (c % 8));
    }
    for (int bit = 0; bit < 2; ++bit) {
      means(bit, c) = count[bit] > 0 ? static_cast<float>(sum[bit] / static_cast<double>(count[bit])) : 0.0f;
    }
    for (int64_t r = 0; r < n; ++r) remainder(r, c) -= means(remainder(r, c) >= 0 ? 1 : 0, c);
  }
}

void DecodeRef(ConstMatrixView means, const uint8_t* bits, MatrixView x) {
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t c = 0; c < x.cols(); ++c) {
      const uint8_t byte = *Byte(const_cast<uint8_t*>(bits), x.rows(), x.cols(), r, c);
      x(r, c) = means(byte >> (c % 8) & 1, c);
    }
  }
}

REGISTER_KERNEL(OneBitEncodeOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &EncodeRef);
REGISTER_KERNEL(OneBitDecodeOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &DecodeRef);

}  // namespace
}  // namespace antiphon
