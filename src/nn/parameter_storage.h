// How a parameter stands in a model file: as floats, or in the few bits that its layer says it needs.
//
//   kFloat  "p" F32 [rows, cols]
//   kInt8   "p" I8 [rows, cols] and "p_scale" F32 [rows] (nn/quantize.h)
//   kInt4   "p" U8 [rows, ⌈cols/2⌉], two's complement, the lower four bits first; "p_scale" F32 [rows]
//   kSigns  "p" U8 [rows, ⌈cols/8⌉], bit c % 8 of byte c / 8 set for a negative value; "p_scale" F32 [rows]
//   kBits   "p" U8 [rows, ⌈cols/8⌉], bit set for 1, clear for 0
// With a mask, kFloat and kInt8 hold the values under its ones only, as a vector in row order.
// Threads: plain functions. Errors: InputError naming the tensor, what was expected and found.
#pragma once

#include <cstdint>
#include <string>

#include "math/safetensors.h"
#include "nn/parameter.h"

namespace antiphon::nn {

/// Largest block of a mask, in values: what one bit of a file may stand for.
constexpr int64_t kMostBlockValues = 64;

void AddParameter(const Parameter& parameter, SafetensorsWriter& writer);
/// A mask must have been read before.
void ReadParameter(const SafetensorsReader& reader, Parameter& parameter);

/// All values as floats; else AddParameter needs all of them, and those of the mask, at once.
inline bool IsStoredAsItIs(const Parameter& p) { return p.storage == Storage::kFloat && p.mask == nullptr; }

/// Values that its mask leaves, all without one.
int64_t NumKept(const Parameter& parameter);
/// Bytes of the parameter in a file.
int64_t StoredBytes(const Parameter& parameter);
/// The most values that parameters read from a tensor can have: what a description may ask memory for.
int64_t MostValues(const SafetensorsReader& reader, const std::string& tensor);

}  // namespace antiphon::nn
