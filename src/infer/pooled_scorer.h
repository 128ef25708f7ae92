// The scores of one stream of a StreamPool, as a search wants them.
//
//   PooledScorer scores(pool, pool.Open());
//   …                                             // others accept frames and run batches
//   scores.Fetch();                               // then a decoder advances to scores.num_frames_ready()
//
// Frames are asked for in order; those before the one that is asked for are forgotten. A lazy model's outputs are
// computed here, on the thread of the search.
// Threads: one PooledScorer belongs to one thread; the pool is shared and must outlive it.
#pragma once

#include <deque>

#include "base/score_source.h"
#include "infer/stream_pool.h"

namespace antiphon::infer {

class PooledScorer : public ScoreSource {
 public:
  /// For an open stream of which nothing was taken.
  PooledScorer(StreamPool& pool, int stream) : pool_(pool), stream_(stream) {}

  /// Takes the scores that are there; returns how many.
  int Fetch();

  int num_pdfs() const override { return pool_.model().num_pdfs(); }
  int num_frames_ready() const override { return first_ + static_cast<int>(frames_.size()); }
  bool IsLastFrame(int frame) const override { return pool_.IsLastFrame(stream_, frame); }
  float LogLikelihood(int frame, int32_t pdf_id) override;
  std::span<const float> DenseFrame(int frame) override;
  void Request(int frame, std::span<const int32_t> pdf_ids) override;

 private:
  const ScoredFrame& At(int frame);

  StreamPool& pool_;
  int stream_;
  int first_ = 0;  // frame of frames_.front()
  std::deque<ScoredFrame> frames_;
};

}  // namespace antiphon::infer
