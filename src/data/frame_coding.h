// How a store holds an utterance's frames: each column divided evenly into 256 (uint8) or 65536 (uint16) steps between
// its smallest and largest value.
//
// Layout: step and smallest value per column (float32 each), then codes [frames × dim]. Threads: read-only.
// Errors: InputError naming frame and column of a value that is not finite, or of a range that no float can hold.
#pragma once

#include <cstdint>
#include <string_view>

#include "math/matrix.h"

namespace antiphon::data {

struct Context;

namespace internal {

class FrameCoding {
 public:
  /// "uint8" or "uint16".
  FrameCoding(std::string_view coding, int dim) : dim_(dim), code_bytes_(coding == "uint8" ? 1 : 2) {}

  uint64_t codes_offset() const { return 2 * sizeof(float) * static_cast<uint64_t>(dim_); }
  uint64_t bytes(int64_t frames) const {
    return codes_offset() + code_bytes_ * static_cast<uint64_t>(dim_) * static_cast<uint64_t>(frames);
  }

  /// Writes bytes(frames.rows()) to `coded`.
  void Encode(ConstMatrixView frames, char* coded) const;
  /// Rows first … first + count − 1, all inside the utterance, each out_stride behind the one before.
  void Decode(const char* coded, int64_t first, int64_t count, float* out, int64_t out_stride) const;
  /// One of the utterance's num_frames with its context; beyond the ends its first or last frame is repeated.
  void Splice(const char* coded, int64_t num_frames, int64_t frame, Context context, float* out) const;

 private:
  int dim_;
  uint64_t code_bytes_;
};

}  // namespace internal
}  // namespace antiphon::data
