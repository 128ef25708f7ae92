// Where a search gets its acoustic scores: the only thing that decoding and alignment know of a model.
//
// Shapes: frames and pdf-ids from 0. Units: log-likelihood in nats, up to a constant per frame, without acoustic scale.
// Threads: one thread per source. Errors: whatever the model behind it throws.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace antiphon {

/// Score of a class that training never saw: it takes part in no path.
inline constexpr float kDisabledScore = -1e10F;

/// Whether training saw a class, by the natural logarithm of its share of all frames.
inline bool WasSeen(double log_prior) { return log_prior >= std::log(1e-10); }

/// Log-likelihoods of (frame, pdf-id), asked for in blocks or lazily.
class ScoreSource {
 public:
  virtual ~ScoreSource() = default;

  virtual int num_pdfs() const = 0;
  /// Frames that can be scored now; grows in streaming, fixed offline.
  virtual int num_frames_ready() const = 0;
  /// True once num_frames_ready will not grow any more.
  virtual bool IsLastFrame(int frame) const = 0;

  /// One score. frame < num_frames_ready(), 0 ≤ pdf_id < num_pdfs().
  virtual float LogLikelihood(int frame, int32_t pdf_id) = 0;

  /// Scores of all pdf-ids of a frame if the source holds them densely, else an empty span and LogLikelihood is to be
  /// used.
  virtual std::span<const float> DenseFrame(int frame) = 0;

  /// Tells which pdf-ids the search will ask for in this frame, so that a lazy source computes them together. Optional.
  virtual void Request(int frame, std::span<const int32_t> pdf_ids) {
    (void)frame;
    (void)pdf_ids;
  }
};

}  // namespace antiphon
