#include "vad/turn_finder.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace antiphon::vad {
namespace {

// So much lower is the threshold below which speech ends: probabilities that waver do not chop it up.
constexpr double kHysteresis = 0.15;
constexpr double kLowest = 0.005;
// So long may sound that could be speech wait for its peak; what began earlier is then lost to its turn.
constexpr double kLongestDoubtS = 1.0;

int64_t FramesOf(double seconds, double frame_shift_s) { return std::llround(seconds / frame_shift_s); }

}  // namespace

TurnFinder::TurnFinder(const VadOptions& options, double frame_shift_s)
    : on_(options.threshold),
      off_(std::max(kLowest, options.threshold - kHysteresis)),
      peak_(options.peak),
      min_speech_(std::max<int64_t>(1, FramesOf(options.min_speech_s, frame_shift_s))),
      min_pause_(std::max<int64_t>(1, FramesOf(options.min_pause_s, frame_shift_s))),
      padding_(FramesOf(options.padding_s, frame_shift_s)),
      longest_doubt_(peak_ > 0 ? std::max(min_speech_, FramesOf(kLongestDoubtS, frame_shift_s)) : min_speech_) {}

int64_t TurnFinder::MaxDelay() const { return std::max(padding_ + longest_doubt_, min_pause_); }

void TurnFinder::Accept(double probability) {
  const int64_t frame = frames_++;
  if (!long_enough_) {
    if (probability < off_) Forget();
    if (candidate_ < 0 && probability >= on_) candidate_ = frame;
    long_enough_ = candidate_ >= 0 && frames_ - candidate_ >= min_speech_;
  }
  if (probability >= off_) speech_end_ = frames_;
  at_peak_ = candidate_ >= 0 && probability >= peak_ ? at_peak_ + 1 : 0;
  reached_peak_ = reached_peak_ || at_peak_ >= min_speech_;
  if (!in_turn_) {
    const int64_t next_begin = candidate_ < 0 ? frames_ : std::max(candidate_, frames_ - longest_doubt_);
    in_turn_ = long_enough_ && reached_peak_;
    if (in_padding_) {
      Decide(std::min(next_begin, padding_end_), true);
      if (in_turn_ || decided_ >= padding_end_) GiveLastRun();
    }
    Decide(next_begin - padding_, false);
  }
  if (in_turn_) Decide(std::min(frames_, speech_end_ + padding_), true);
  if (long_enough_ && frames_ - speech_end_ >= min_pause_) EndTurn();
}

void TurnFinder::Finish() {
  EndTurn();
  if (in_padding_) {
    Decide(std::min(frames_, padding_end_), true);
    GiveLastRun();
  }
  Decide(frames_, false);
}

std::vector<Run> TurnFinder::Take() { return std::exchange(runs_, {}); }

void TurnFinder::EndTurn() {
  if (in_turn_) {
    in_padding_ = true;
    padding_end_ = speech_end_ + padding_;
    if (decided_ >= padding_end_) GiveLastRun();
  }
  in_turn_ = false;
  Forget();
}

void TurnFinder::GiveLastRun() {
  if (!runs_.empty() && runs_.back().speech) {
    runs_.back().last = true;
  } else {
    runs_.push_back({decided_, decided_, true, true});
  }
  in_padding_ = false;
}

void TurnFinder::Forget() {
  candidate_ = -1;
  at_peak_ = 0;
  long_enough_ = reached_peak_ = false;
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
