// What a layer may know of its input: that blocks of columns are shifted copies of one another.
#pragma once

namespace antiphon::nn {

/// Block k of a frame holds what block k − 1 holds `frames` later. One block: nothing is known.
struct ShiftedBlocks {
  int blocks = 1;
  int frames = 0;
};

}  // namespace antiphon::nn
