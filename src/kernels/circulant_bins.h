// Products of spectra, bin by bin: what block-circulant layers do between their Fourier transforms.
//
// Bins are complex, real and imaginary parts apart; a bin with real values has zeros there. For each of `frames` frames
// and each bin: out[o] = Σ_j spectrum[j][o] · in[j] for kBinOutputs neighbouring output blocks o.
// Order of the sums: j ascending, so that the bits do not depend on how many frames go together.
//
// Shapes: spectra [bins, in_blocks, 2, 16] real parts of the 16 outputs before imaginary ones; in_real and in_imaginary
// [frame][in_blocks][stride of a block] at the bin's place (offsets real_at, imaginary_at; imaginary_at < 0: none); out
// [frame][bins][2][16].
// Threads: pure functions. fp32 only; variants are named by instruction set.
#pragma once

#include <cstdint>

#include "device/isa_kernel.h"

namespace antiphon {

constexpr int64_t kBinOutputs = 16;

struct CirculantBinArgs {
  const float* spectrum = nullptr;  // of one bin: [in_blocks, 2, 16]
  int64_t in_blocks = 0;
  const float* in = nullptr;  // frame 0, block 0
  int64_t block_stride = 0;   // values from block to block
  int64_t frame_stride = 0;   // values from frame to frame
  int64_t real_at = 0;
  int64_t imaginary_at = -1;
  int frames = 0;        // at most kBinFrames
  float* out = nullptr;  // [frames, 2, 16]
};
constexpr int kBinFrames = 4;

struct CirculantBinOp {
  static constexpr const char* kName = "circulant_bin";
  using Function = void (*)(const CirculantBinArgs& args);
};

}  // namespace antiphon
