// How sure a network is, over some time, that it hears speech: the mean of its probabilities where they count as
// speech. Pauses say nothing of that, and so do not count.
//
// Units: seconds, from the first frame. Memory grows by four bytes per frame until it is told to forget. Threads: const
// methods may run together. Errors: none.
#pragma once

#include <cstdint>
#include <vector>

namespace antiphon::vad {

class SpeechCertainty {
 public:
  /// Frames count as speech from `threshold` on.
  SpeechCertainty(double threshold, double frame_shift_s) : threshold_(threshold), frame_shift_s_(frame_shift_s) {}

  /// Of the next frame.
  void Accept(double probability) { probabilities_.push_back(static_cast<float>(probability)); }
  /// What lies before is not asked for any more.
  void ForgetBefore(double time_s);
  /// 0 without a frame of speech; of what is known and not forgotten.
  double Between(double begin_s, double end_s) const;

 private:
  int64_t IndexAt(double time_s) const;

  double threshold_;
  double frame_shift_s_;
  int64_t forgotten_ = 0;  // frames
  std::vector<float> probabilities_;
};

}  // namespace antiphon::vad
