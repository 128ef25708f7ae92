// Tables of the spectral front end: windows, mel filters, cosine transforms, lifters.
//
// Units: Hz, mel = 1127·ln(1 + f/700). Computed in single precision in Kaldi's order of operations.
// Errors: UsageError for bands that cannot be, naming the options.
#pragma once

#include <string>
#include <vector>

#include "feat/front_end.h"
#include "kernels/frame_block.h"

namespace antiphon::feat {

/// Lengths in samples that the options mean.
struct FrameGeometry {
  int length = 0;
  int shift = 0;
  int padded_length = 0;  // the next power of two

  explicit FrameGeometry(const FrontEndOptions& options);
  /// Frames of an utterance of this many samples.
  int64_t NumFrames(int64_t num_samples, bool snip_edges) const;
  /// First sample of a frame; negative with mirrored edges.
  int64_t Start(int64_t frame, bool snip_edges) const;
};

/// Values of a window function ("povey", "hamming", "hanning", "blackman", "sine", "rectangular").
std::vector<float> WindowFunction(const std::string& name, int length);

/// Triangles equally spaced in mel over the bins 0 … padded/2 − 1 of a power spectrum, and their centres.
struct MelBanks {
  explicit MelBanks(const FrontEndOptions& options);
  BandedMatrix filters;
  std::vector<float> centers_hz;
};

/// rows × cols of the orthonormal cosine transform, row-major.
std::vector<float> CosineTransform(int rows, int cols);
/// 1 + Q/2·sin(πi/Q); ones if Q is 0.
std::vector<float> Lifter(double q, int size);
/// Hearing's sensitivity at each centre.
std::vector<float> EqualLoudness(const std::vector<float>& centers_hz);
/// From `points` values of an even spectrum (ends included) to `rows` autocorrelations, row-major.
std::vector<float> SpectrumToAutocorrelation(int rows, int points);

}  // namespace antiphon::feat
