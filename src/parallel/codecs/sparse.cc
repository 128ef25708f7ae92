#include "parallel/codecs/sparse.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"

namespace antiphon::parallel {

void CheckPositions(ConstMatrixView matrix) {
  if (matrix.rows() * matrix.cols() > int64_t{std::numeric_limits<int32_t>::max()}) {
    Throw<UsageError>(
        "a sparse codec counts positions in 31 bits, but a matrix part has {} × {} values: more workers "
        "make the parts smaller",
        matrix.rows(), matrix.cols());
  }
}

void AppendSparse(std::span<const SparseValue> values, Code& code) {
  const auto count = static_cast<uint32_t>(values.size());
  AppendBytes(std::as_bytes(std::span(&count, 1)), code);
  AppendBytes(std::as_bytes(values), code);
}

size_t TakeSparse(std::span<const std::byte> code, MatrixView matrix) {
  uint32_t count = 0;
  size_t taken = TakeBytes(code, std::as_writable_bytes(std::span(&count, 1)));
  const auto size = static_cast<uint64_t>(matrix.rows() * matrix.cols());
  if (count > size) Throw<InputError>("a sparse gradient has {} values for a matrix of {}: damaged", count, size);
  std::vector<SparseValue> values(count);
  taken += TakeBytes(code.subspan(taken), std::as_writable_bytes(std::span(values)));
  for (int64_t r = 0; r < matrix.rows(); ++r) std::fill(matrix.Row(r).begin(), matrix.Row(r).end(), 0.0f);
  for (const SparseValue& v : values) {
    if (v.position >= size) Throw<InputError>("a sparse gradient names position {} of {}: damaged", v.position, size);
    matrix(v.position / matrix.cols(), v.position % matrix.cols()) = v.value;
  }
  return taken;
}

void AppendNonzero(ConstMatrixView matrix, Code& code) {
  std::vector<SparseValue> values;
  for (int64_t r = 0; r < matrix.rows(); ++r) {
    const auto row = matrix.Row(r);
    for (int64_t c = 0; c < matrix.cols(); ++c) {
      // Not a number is not zero either.
      const float value = row[static_cast<size_t>(c)];
      if (!(value == 0)) values.push_back({static_cast<uint32_t>(r * matrix.cols() + c), value});
    }
  }
  AppendSparse(values, code);
}

}  // namespace antiphon::parallel
