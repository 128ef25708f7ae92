// Arithmetic of speech features on sixteen frames at once, one frame per SIMD lane.
//
// Shapes: blocks as in kernels/fft.h: rows × 16 floats, aligned to 64 bytes, value i of frame l at [16·i + l]. A
// frame's result does not depend on what the other lanes hold; sums run in one fixed order. Threads: free functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/fft.h"

namespace antiphon {

/// How a frame is cut and windowed.
struct FrameWindow {
  std::vector<float> window;  // its length is the frame's
  int padded_length = 0;      // ≥ frame length; the rest is zero
  float preemphasis = 0.0f;
  bool remove_mean = true;
};

/// Cuts frames l = 0 … num_frames − 1 (≤ 16) at samples + l·shift, removes the mean, sets energy[l] = Σx² if energy is
/// not null, applies pre-emphasis (the first sample is its own predecessor) and the window, pads. Unused lanes repeat
/// frame 0.
void CutFrames(const FrameWindow& window, const float* samples, int64_t shift, int num_frames, float* block,
               float* energy);

/// A banded matrix: row r covers columns first[r] … first[r] + count[r] − 1, its weights one row after the other.
struct BandedMatrix {
  std::vector<int32_t> first;
  std::vector<int32_t> count;
  std::vector<float> weights;
};
/// out[r] = Σ_c matrix[r][c]·in[c].
void BandedTimesBlock(const BandedMatrix& matrix, const float* in, float* out);
/// The same for a dense row-major matrix.
void DenseTimesBlock(std::span<const float> matrix, int rows, int cols, const float* in, float* out);

/// x = log(max(x, floor)) over rows × 16 values.
void LogBlock(float* block, int rows, float floor);
/// x = (scale[row]·max(x, floor))^exponent.
void ScaledPowerBlock(float* block, std::span<const float> scale, float floor, float exponent);

/// Linear prediction from autocorrelation (order + 1 rows) by Durbin's recursion with 1 − k² ≥ 1e-5, then cepstra
/// c₁ … c_order into rows 1 … order of `cepstra`, and log residual energy (≥ the smallest normal float) into row 0.
/// `lpc` receives `order` rows: predictors with the sign of 1 + Σ a_i z^−i. `scratch`: order rows.
void LpcCepstraBlock(const float* autocorrelation, int order, float* lpc, float* cepstra, float* scratch);

/// out[l·stride + r] = block[r][l] for r < rows, l < num_frames.
void StoreFrames(const float* block, int rows, int num_frames, float* out, int64_t stride);

}  // namespace antiphon
