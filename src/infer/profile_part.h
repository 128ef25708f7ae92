// A part of a speaker's profile (nn/speaker_profile.h), ready to change rows: x' = A·x + b with A full or diagonal.
//
// A full matrix is packed as the weights of a layer are, and multiplied in the arithmetic of the plan. With less than
// fp32 it is D = A − I that is rounded, and x' = x + (D·x + b): adapted matrices are near the identity, beside whose
// ones what the speaker needs would be lost. Threads: read-only once made. Results do not depend on which rows go
// together.
#pragma once

#include <cstddef>
#include <vector>

#include "infer/packed_dense.h"
#include "nn/speaker_profile.h"

namespace antiphon::infer {

class ProfilePart {
 public:
  ProfilePart(const nn::SpeakerProfile::Part& part, DataType precision, Isa isa);

  int64_t dim() const { return scale_.empty() ? matrix_.out_dim() : std::ssize(scale_); }
  /// From rows of floats to others, which lie elsewhere. Only a matrix in less than fp32 needs `converted`, 64-byte
  /// aligned memory of RowsBytes(in.rows, in.dim); only it minds how the rows of `in` lie.
  void Run(const Rows& in, std::byte* converted, const Rows& out) const;

 private:
  std::vector<float> scale_, offset_;  // of a diagonal part; the offset may be empty
  PackedDense matrix_;
  bool adds_ = false;
  RowConverter converter_;
};

}  // namespace antiphon::infer
