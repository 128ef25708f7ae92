#include "vad/turn_finder.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace antiphon::vad {
namespace {

// So much lower is the threshold below which speech ends: probabilities that waver do not chop it up.
constexpr double kHysteresis = 0.15;
constexpr double kLowest = 0.005;

int64_t FramesOf(double seconds, double frame_shift_s) { return std::llround(seconds / frame_shift_s); }

}  // namespace

TurnFinder::TurnFinder(const VadOptions& options, double frame_shift_s)
    : on_(options.threshold),
      off_(std::max(kLowest, options.threshold - kHysteresis)),
      min_speech_(std::max<int64_t>(1, FramesOf(options.min_speech_s, frame_shift_s))),
      min_pause_(std::max<int64_t>(1, FramesOf(options.min_pause_s, frame_shift_s))),
      padding_(FramesOf(options.padding_s, frame_shift_s)) {}

int64_t TurnFinder::MaxDelay() const { return std::max(padding_ + min_speech_, min_pause_); }

void TurnFinder::Accept(double probability) {
  const int64_t frame = frames_++;
  if (!in_turn_) {
    if (probability < off_) candidate_ = -1;
    if (candidate_ < 0 && probability >= on_) candidate_ = frame;
    Decide((candidate_ < 0 ? frames_ : candidate_) - padding_, false);
    if (candidate_ < 0 || frames_ - candidate_ < min_speech_) return;
    in_turn_ = true;
  }
  if (probability >= off_) speech_end_ = frames_;
  Decide(std::min(frames_, speech_end_ + padding_), true);
  if (frames_ - speech_end_ >= min_pause_) EndTurn();
}

void TurnFinder::Finish() {
  if (in_turn_) EndTurn();
  Decide(frames_, false);
}

std::vector<Run> TurnFinder::Take() { return std::exchange(runs_, {}); }

void TurnFinder::EndTurn() {
  if (!runs_.empty() && runs_.back().speech) {
    runs_.back().last = true;
  } else {
    runs_.push_back({decided_, decided_, true, true});
  }
  in_turn_ = false;
  candidate_ = -1;
}

void TurnFinder::Decide(int64_t until, bool speech) {
  if (until <= decided_) return;
  if (!runs_.empty() && runs_.back().speech == speech && !runs_.back().last) {
    runs_.back().end = until;
  } else {
    runs_.push_back({decided_, until, speech, false});
  }
  decided_ = until;
}

}  // namespace antiphon::vad
