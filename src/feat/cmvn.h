// Mean and variance normalisation of features: per utterance, per speaker, or in a sliding window.
//
// Statistics are sums in double precision, laid out as Kaldi's (2 × (dim+1): sums and count; sums of squares and 0), so
// that cmvn.ark files are interchangeable. Threads: as plain data. Errors: ShapeError for dimensions that differ;
// InputError for statistics of no frames.
#pragma once

#include <cstdint>
#include <vector>

#include "feat/speaker_mean.h"
#include "math/matrix.h"

namespace antiphon::feat {

/// Accumulates and applies.
class CmvnStats {
 public:
  CmvnStats() = default;
  explicit CmvnStats(int dim) : sums_(2, dim + 1) {}
  /// From Kaldi's matrix.
  static CmvnStats FromMatrix(DoubleMatrix sums);

  void Add(ConstMatrixView frames);
  void Add(const CmvnStats& other);
  int dim() const { return sums_.cols() > 0 ? static_cast<int>(sums_.cols()) - 1 : 0; }
  double count() const { return sums_.cols() > 0 ? sums_(0, sums_.cols() - 1) : 0.0; }
  double Mean(int column) const;
  /// Population variance, at least 1e-20.
  double Variance(int column) const;
  /// x − mean, and / √variance if asked, in place. InputError if there are no frames in the statistics.
  void Apply(MatrixView frames, bool normalize_variance) const;
  const DoubleMatrix& matrix() const { return sums_; }

 private:
  DoubleMatrix sums_;
};

/// Normalises one utterance by itself.
void NormalizeUtterance(MatrixView frames, bool normalize_variance);

struct SlidingCmvnOptions {
  int window = 3000;                // frames of the window
  int min_window = 100;             // frames that the first windows reach ahead to (center = false)
  bool normalize_variance = false;  // divide by the standard deviation too
  bool center = false;              // window around the frame instead of before it
};

/// Subtracts from each frame the mean of a window about it, as Kaldi's sliding-window normalisation.
Matrix SlidingCmvn(ConstMatrixView frames, const SlidingCmvnOptions& options);

/// The same frames while they are still coming (center = false): a frame is handed out once min_window frames are
/// there, or the end is. Frames of the speaker's earlier speech, if some are known, fill up the window until it is
/// full, and count among min_window. One thread.
class SlidingCmvnStream {
 public:
  /// `speaker`: empty, or sums and squares of the same dimension. UsageError for center = true, whose windows reach
  /// into the future.
  SlidingCmvnStream(int dim, const SlidingCmvnOptions& options, SpeakerMean speaker = {});
  /// What the last window and what was known before say of the speaker: for the next utterance.
  SpeakerMean speaker() const;
  void Accept(ConstMatrixView frames);
  void Finish() { finished_ = true; }
  /// Normalised frames that were not handed out before.
  Matrix Take();

 private:
  void Add(int64_t frame, double sign);
  void SumWithSpeaker(SpeakerMean& all) const;

  SlidingCmvnOptions options_;
  SpeakerMean speaker_;
  int64_t dim_;
  std::vector<float> frames_;  // from first_ on
  int64_t first_ = 0, num_frames_ = 0, next_ = 0;
  int64_t begin_ = 0, end_ = 0;  // of the window whose sums are held
  std::vector<double> sum_, square_;
  SpeakerMean with_speaker_;  // the same, filled up
  bool finished_ = false;
};

}  // namespace antiphon::feat
