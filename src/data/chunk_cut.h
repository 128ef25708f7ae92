// Where an utterance is cut into chunks of given widths.
//
// Of all sequences of widths, the one is taken that covers the utterance with least waste: frames of no chunk, or
// frames that the last chunk lacks. Of equal ones it is the one that leaves no frame out, then the one with most chunks
// of the first width. Chunks do not overlap, and begin at multiples of the network's stride from the frame that the
// grid of outputs begins with.
//
// Threads: read-only once made. Memory: a few hundred numbers, whatever the utterance's length.
// Source: the widths and their use are those of Kaldi's chain recipes (nnet3-chain-get-egs, utterance-splitter).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace antiphon::data::internal {

class ChunkCut {
 public:
  /// Widths in frames, the preferred one first; each counts as the next multiple of `stride`.
  ChunkCut(std::span<const int> widths, int stride);

  struct Piece {
    int32_t first = 0;
    int32_t count = 0;
  };
  /// The chunks of frames `begin` … `end` − 1. With `rng`, their order, and where the frames are that no chunk has, are
  /// drawn: other frames are left out in another epoch. Only the last chunk may have fewer frames than its width.
  std::vector<Piece> Cut(int32_t begin, int32_t end, Rng* rng) const;
  /// As the network sees it.
  int32_t Rounded(int width) const { return (width + stride_ - 1) / stride_ * stride_; }

 private:
  std::vector<int32_t> WidthsFor(int32_t outputs) const;

  int32_t stride_;
  int32_t preferred_;            // in outputs, as all below
  int32_t longest_ = 0;          // of which sums are known
  std::vector<int32_t> last_;    // by sum: a width with which it ends; 0: no sequence has this sum
  std::vector<int32_t> others_;  // by sum: chunks of other widths than the preferred one, at least
};

}  // namespace antiphon::data::internal
