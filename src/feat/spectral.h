// The spectral part of a frame: filter bank, mel cepstra or perceptual linear prediction, sixteen frames at a time.
//
// Shapes: frames start `shift` samples apart in contiguous memory; a frame's row does not depend on its neighbours.
// Threads: const methods may run together, one Scratch per thread.
#pragma once

#include <vector>

#include "feat/mel.h"

namespace antiphon::feat {

class SpectralFeatures {
 public:
  explicit SpectralFeatures(const FrontEndOptions& options);

  struct Scratch {
    Matrix frames, power, mel, out, energy, work;
  };

  int dim() const { return dim_; }
  const FrameGeometry& geometry() const { return geometry_; }
  /// Rows out[0 … count) (`stride` apart) for the frames at samples, samples + shift, …; count any.
  void Compute(const float* samples, int64_t count, float* out, int64_t stride, Scratch& scratch) const;

 private:
  enum class Kind { kFbank, kMfcc, kPlp };
  void PrepareFbank(Scratch& scratch) const;
  void PrepareMfcc(Scratch& scratch) const;
  void PreparePlp(Scratch& scratch) const;

  FrontEndOptions options_;
  FrameGeometry geometry_;
  Kind kind_;
  int dim_;
  FrameWindow window_;
  BlockFft fft_;
  MelBanks banks_;
  std::vector<float> transform_;  // cosine or inverse Fourier, liftered where it can be
  std::vector<float> lifter_;
  std::vector<float> loudness_;
};

}  // namespace antiphon::feat
