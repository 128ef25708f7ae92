// Frames on their way through a plan, in the format that the next step reads.
//
// kFloat32 and kBf16 as they are; kInt8: unsigned bytes q with x ≈ scale[row] · (q − zero[row]).
// Rows are 64-byte aligned and padded to 64 bytes; what lies beyond `dim` is finite and otherwise undefined.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "math/matrix.h"

namespace antiphon::infer {

struct Rows {
  DataType type = DataType::kFloat32;
  int rows = 0;
  int64_t dim = 0;
  int64_t stride = 0;  // bytes
  std::byte* data = nullptr;
  float* scale = nullptr;
  int32_t* zero = nullptr;
  /// For the step that writes the rows: null, or per row null or factors on its values, in whole panels of 64.
  const float* const* factors = nullptr;

  template <class T>
  T* Row(int row) const {
    return reinterpret_cast<T*>(data + row * stride);
  }
  MatrixView Floats() const { return {Row<float>(0), rows, dim, stride / int64_t{sizeof(float)}}; }
};

/// Bytes from row to row: of floats, the widest format, and an odd number of cache lines. Kernels read many rows side
/// by side, which would fight for one set of the cache if they were 4 KiB apart.
constexpr int64_t RowStride(int64_t dim) { return ((dim * int64_t{sizeof(float)} + 63) / 64 | 1) * 64; }

/// Bytes that hold `rows` rows of any format.
constexpr int64_t RowsBytes(int64_t rows, int64_t dim) {
  return rows * RowStride(dim) + 2 * ((rows * int64_t{sizeof(float)} + 63) / 64 * 64);
}

/// Lays rows of `type` out in memory of RowsBytes.
Rows PlaceRows(std::byte* memory, DataType type, int rows, int64_t dim);

}  // namespace antiphon::infer
