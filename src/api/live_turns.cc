#include "api/live_turns.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace antiphon {

void LiveTurns::Hear(std::span<const float> samples) {
  speech_.Accept(samples);
  for (const vad::Run& run : speech_.Take()) runs_.push_back(run);
}

void LiveTurns::Finish() {
  speech_.Finish();
  for (const vad::Run& run : speech_.Take()) runs_.push_back(run);
  finished_ = true;
}

std::optional<LiveTurns::Piece> LiveTurns::Next() {
  while (!runs_.empty()) {
    const vad::Run run = runs_.front();
    // Whatever front end counts its frames differently at the end.
    const int64_t end = finished_ && runs_.size() == 1 ? row_ + waiting_.size() : RowAt(run.end);
    const int64_t count = std::min(end - row_, waiting_.size());
    if (count <= 0 && end > row_ && !finished_) return std::nullopt;
    Piece piece{.rows = TakeRows(count), .begin = row_, .first = !in_turn_, .last = false};
    row_ += std::max<int64_t>(count, 0);
    const bool over = row_ >= end || finished_;
    if (over) runs_.pop_front();
    if (!run.speech) {
      ForgetCertaintyBefore(row_);
      continue;
    }
    piece.last = over && run.last;
    if (piece.rows.empty() && (piece.first || !piece.last)) continue;
    in_turn_ = !piece.last;
    return piece;
  }
  return std::nullopt;
}

double LiveTurns::Certainty(int64_t begin_row, int64_t end_row) const {
  // The last frame of the search is left out: how much of it was heard depends on how the sound is cut (RowAt).
  return certainty_.Between(TimeOf(begin_row), TimeOf(end_row) - frame_shift_s_);
}

int64_t LiveTurns::RowAt(int64_t frame) const {
  return std::llround(static_cast<double>(frame) * speech_.frame_shift_s() / frame_shift_s_) * subsampling_;
}

Matrix LiveTurns::TakeRows(int64_t count) {
  Matrix rows = waiting_.First(count);
  waiting_.Drop(rows.rows());
  return rows;
}

}  // namespace antiphon
