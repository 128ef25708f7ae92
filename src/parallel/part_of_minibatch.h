// A part of a minibatch as a minibatch of its own: some of its single frames, or some of the streams of its chunks.
//
// Its loss is divided by what the whole's is divided by, so that the parts' gradients add up to the whole's. Single
// frames are seen where they are; what belongs to streams is copied, so that the whole may come with one more part at
// its side. Streams must be chunks that stand alone: their number changes, and recurrent layers carry states by stream.
// Threads: one. Errors: none.
#pragma once

#include <cstdint>
#include <vector>

#include "base/sequence_layout.h"
#include "parallel/strategy.h"

namespace antiphon::parallel {

class PartOfMinibatch {
 public:
  /// Single frames, or streams, that `whole` has; 1 if it cannot be divided: frames under a criterion of sequences.
  static int64_t Pieces(const StepInput& whole);

  /// Frames or streams first … last − 1 of `whole`, which outlives it.
  PartOfMinibatch(const StepInput& whole, int64_t first, int64_t last);
  PartOfMinibatch(const PartOfMinibatch&) = delete;
  PartOfMinibatch& operator=(const PartOfMinibatch&) = delete;

  /// To be called before its step: a criterion of sequences is told its rows.
  const StepInput& Begin() const;

 private:
  void SeeFrames(const StepInput& whole, int64_t first, int64_t last);
  void CopyStreams(const StepInput& whole, int64_t first, int64_t last);

  StepInput input_;
  Matrix features_;
  Matrix soft_;
  std::vector<int32_t> pdf_ids_;
  std::vector<float> weights_;
  std::vector<uint8_t> begins_;
  std::vector<int32_t> lengths_;
  SequenceLayout layout_;
  std::vector<int64_t> criterion_rows_;
};

}  // namespace antiphon::parallel
