#include "infer/pooled_scorer.h"

#include "base/check.h"

namespace antiphon::infer {

int PooledScorer::Fetch() {
  std::deque<ScoredFrame> taken = pool_.TakeFrames(stream_);
  frames_.insert(frames_.end(), taken.begin(), taken.end());
  return static_cast<int>(taken.size());
}

const ScoredFrame& PooledScorer::At(int frame) {
  CHECK(frame >= first_ && frame < num_frames_ready()) << "frame " << frame << " was forgotten, or is not there yet";
  frames_.erase(frames_.begin(), frames_.begin() + (frame - first_));
  first_ = frame;
  return frames_.front();
}

float PooledScorer::LogLikelihood(int frame, int32_t pdf_id) {
  const ScoredFrame& scored = At(frame);
  if (scored.scores) return (*scored.scores)[static_cast<size_t>(pdf_id)];
  if (!scored.block->Has(scored.row, pdf_id)) scored.block->Request(scored.row, {&pdf_id, 1});
  return pool_.model().FinishScore(scored.block->score(scored.row, pdf_id), pdf_id);
}

std::span<const float> PooledScorer::DenseFrame(int frame) {
  const ScoredFrame& scored = At(frame);
  return scored.scores ? std::span<const float>(*scored.scores) : std::span<const float>();
}

void PooledScorer::Request(int frame, std::span<const int32_t> pdf_ids) {
  const ScoredFrame& scored = At(frame);
  if (scored.block) scored.block->Request(scored.row, pdf_ids);
}

}  // namespace antiphon::infer
