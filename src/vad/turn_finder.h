// From the probability of speech in each frame to turns of speech: with two thresholds, a shortest turn, a shortest
// pause, and some frames around.
//
// A turn begins where the probability stays above the lower threshold, from a frame above the upper one on, for
// min-speech; it ends where it stays below the lower one for min-pause. With a peak it counts from where it has reached
// the peak for min-speech, and begins a second before that at most; until then it is in doubt. The padding behind a
// turn reaches to the speech of the next at most, that before it to the end of the last. What becomes of a frame is
// known at most MaxDelay frames later.
//
// Units: frames, from 0. Threads: one per object. Errors: none.
#pragma once

#include <cstdint>
#include <vector>

#include "vad/vad_options.h"

namespace antiphon::vad {

/// Neighbouring frames that are all speech or all not.
struct Run {
  int64_t begin = 0;
  int64_t end = 0;  // the first frame behind it; of a turn's last run it may be `begin`
  bool speech = false;
  bool last = false;  // of its turn

  bool operator==(const Run&) const = default;
};

class TurnFinder {
 public:
  TurnFinder(const VadOptions& options, double frame_shift_s);

  void Accept(double probability);
  /// No more frames: what is open ends.
  void Finish();
  /// What became known since the last call: runs that follow each other from frame 0 on, without gaps.
  std::vector<Run> Take();
  int64_t MaxDelay() const;

 private:
  void Decide(int64_t until, bool speech);
  void EndTurn();
  void GiveLastRun();
  void Forget();  // the candidate

  double on_;
  double off_;
  double peak_;
  int64_t min_speech_;
  int64_t min_pause_;
  int64_t padding_;
  int64_t longest_doubt_;
  int64_t frames_ = 0;
  int64_t decided_ = 0;
  int64_t candidate_ = -1;  // where a turn may have begun
  int64_t speech_end_ = 0;  // behind the last frame of speech
  int64_t at_peak_ = 0;     // frames in a row, up to now
  bool long_enough_ = false;
  bool reached_peak_ = false;
  bool in_turn_ = false;
  bool in_padding_ = false;  // behind a turn whose last run is still to come
  int64_t padding_end_ = 0;  // of that turn
  std::vector<Run> runs_;
};

}  // namespace antiphon::vad
