// Pitch and voicing: normalised cross-correlation at log-spaced lags, tracked by the Viterbi algorithm.
//
// Units: samples on the 16-bit scale, pitch in Hz. Shapes: T × 2 (correlation, pitch), T × 3 or T × 1 after
// post-processing. Threads: PitchTracker is immutable; a PitchStream belongs to one thread. Source: Ghahremani,
// BabaAli, Povey, Riedhammer, Trmal, Khudanpur, ICASSP 2014, with Kaldi's constants. The ballast of the correlation is
// taken from the whole signal, so that nothing is final before its end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "feat/front_end.h"
#include "kernels/nccf.h"

namespace antiphon::feat {

/// Tables of one set of options; of FrontEndOptions it uses rate, frame length and shift, snip-edges and the pitch
/// range.
class PitchTracker {
 public:
  explicit PitchTracker(const FrontEndOptions& options);

  /// Frames of an utterance of this many samples.
  int64_t NumFrames(int64_t num_samples) const;
  /// T × 2: normalised correlation without ballast, pitch in Hz (always one: the search has no unvoiced state).
  Matrix Compute(std::span<const float> samples) const;

 private:
  friend class PitchStream;
  struct FilterPhase {
    int first = 0;  // input sample relative to the unit's
    std::vector<float> weights;
  };
  int64_t NumDownsampled(int64_t num_samples) const;
  int64_t NumFramesOf(int64_t num_downsampled) const;
  /// Low-rate samples, and frames, that do not touch the end of the signal.
  int64_t NumSettled(int64_t num_samples) const;
  int64_t NumSettledFrames(int64_t num_downsampled) const;
  int64_t FrameStart(int64_t frame) const;
  void MakeDownsampler();
  void MakeLags(const FrontEndOptions& options);

  int sample_rate_hz_;
  bool snip_edges_;
  int window_;                      // samples at the low rate
  int shift_;                       //
  int in_unit_ = 1, out_unit_ = 1;  // samples in the shortest time that is whole at both rates
  std::vector<FilterPhase> phases_;
  int reach_ = 0;  // input samples that a filter reaches to either side
  int first_lag_ = 0, num_lags_ = 0;
  std::vector<float> lags_s_;
  GroupedMatrix interpolation_;  // measured lags → lags_s_
};

/// Takes the signal in pieces; the answer comes at the end.
class PitchStream {
 public:
  explicit PitchStream(const PitchTracker& tracker);
  void Accept(std::span<const float> samples);
  /// As PitchTracker::Compute of all samples, bit by bit. Once.
  Matrix Finish();

 private:
  struct Correlations {
    std::vector<float> window, product, energy, ballasted, plain, costs;
  };
  void Downsample(bool finish);
  double Ballast(int64_t num_samples) const;
  void Correlate(int64_t frame, double ballast, Correlations& c) const;
  float VoicingAt(int64_t frame, int state, Correlations& c) const;

  const PitchTracker& tracker_;
  std::vector<float> input_;  // from sample input_first_ on
  int64_t input_first_;
  int64_t num_samples_ = 0;
  std::vector<float> signal_;  // at the low rate
};

/// The Viterbi step: cost[i] = min_j previous[j] + factor·(i − j)², from[i] the least such j; exact, in time linear in
/// the states.
class QuadraticTransition {
 public:
  void Step(std::span<const float> previous, float factor, std::span<float> cost, std::span<uint16_t> from);

 private:
  float factor_ = 0.0f;
  std::vector<float> penalty_;
  std::vector<int> lower_, upper_;
};

/// dim 3: voicing 2·((1.0001 − n)^0.15 − 1), 2·(log pitch − its voicing-weighted mean over ±75 frames), 10·Δ log pitch;
/// dim 1: the second of these.
Matrix PostProcessPitch(ConstMatrixView raw, int dim);

}  // namespace antiphon::feat
