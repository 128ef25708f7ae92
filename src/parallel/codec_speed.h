// How fast this machine encodes and decodes gradients with a codec, and what is left of them.
#pragma once

#include <string>

#include "comm/host_model.h"

namespace antiphon::parallel {

struct CodecMeasurement {
  comm::CodecSpeed speed;     // 10^9 bytes of fp32 gradient per second
  double share_of_bytes = 1;  // of fp32's
};

/// On a matrix of random values, one call at a time: the middle of `rounds`.
CodecMeasurement MeasureCodec(const std::string& codec, int64_t rows, int64_t cols, int rounds);

}  // namespace antiphon::parallel
