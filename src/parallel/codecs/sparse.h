// Sparse codes: pairs of a position in a matrix (row-major, 32 bits) and a value, behind their number.
//
// Internal to parallel/codecs. Errors: InputError for positions outside of the matrix.
#pragma once

#include <cstdint>
#include <span>

#include "parallel/codec.h"

namespace antiphon::parallel {

struct SparseValue {
  uint32_t position = 0;
  float value = 0;
};

/// UsageError if a matrix has too many values for 32-bit positions.
void CheckPositions(ConstMatrixView matrix);
void AppendSparse(std::span<const SparseValue> values, Code& code);
/// Overwrites `matrix`, zero where the code has nothing; returns how many bytes the code took.
size_t TakeSparse(std::span<const std::byte> code, MatrixView matrix);
/// Appends all values that are not zero: how a sum of sparse gradients travels, exactly.
void AppendNonzero(ConstMatrixView matrix, Code& code);

}  // namespace antiphon::parallel
