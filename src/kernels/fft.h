// Power spectra of sixteen real frames at once, one frame per SIMD lane.
//
// Shapes: a block is n × 16, row-major, aligned to 64 bytes: value i of frame l at [16·i + l]. What one lane yields
// does not depend on the other lanes. Threads: const methods may run together. Errors: CHECK on the size. Source:
// radix-4 decimation in frequency; real input as half-length complex (Press et al., Numerical Recipes, 12.3).
#pragma once

#include <cstdint>
#include <vector>

namespace antiphon {

/// Frames per block of all kernels that compute on frames in lanes.
inline constexpr int kFrameLanes = 16;

/// Tables for one transform size.
class BlockFft {
 public:
  /// size: a power of two, 4 … 2^20.
  explicit BlockFft(int size);
  int size() const { return size_; }

  /// power[k] = |Σ_i block[i]·e^(−2πi·k·i/size)|² for k = 0 … size/2; block (size rows) is destroyed, power has size/2
  /// + 1 rows.
  void Power(float* block, float* power) const;

  struct Stage {
    int length;   // of the sub-transforms that this stage splits by four (or by two if length is 2)
    int twiddle;  // of its factors in twiddles(): w, w², w³ as (re, im), for k = 0 … length/4 − 1
  };
  const std::vector<Stage>& stages() const { return stages_; }
  const std::vector<float>& twiddles() const { return twiddles_; }
  /// Where output k of the half-length complex transform stands.
  const std::vector<int32_t>& positions() const { return positions_; }
  /// (re, im) of e^(−2πi·k/size), k = 0 … size/4.
  const std::vector<float>& real_twiddles() const { return real_twiddles_; }

 private:
  int size_;
  std::vector<Stage> stages_;
  std::vector<float> twiddles_;
  std::vector<int32_t> positions_;
  std::vector<float> real_twiddles_;
};

/// The same by KissFFT, frame by frame; leaves `block` as it is.
void BlockFftPowerRef(int size, const float* block, float* power);

}  // namespace antiphon
