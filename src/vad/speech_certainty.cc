#include "vad/speech_certainty.h"

#include <algorithm>
#include <cmath>

namespace antiphon::vad {

void SpeechCertainty::ForgetBefore(double time_s) {
  const int64_t count = IndexAt(time_s);
  probabilities_.erase(probabilities_.begin(), probabilities_.begin() + count);
  forgotten_ += count;
}

double SpeechCertainty::Between(double begin_s, double end_s) const {
  double sum = 0;
  int64_t frames = 0;
  for (int64_t i = IndexAt(begin_s); i < IndexAt(end_s); ++i) {
    const float probability = probabilities_[static_cast<size_t>(i)];
    if (probability < threshold_) continue;
    sum += probability;
    ++frames;
  }
  return frames == 0 ? 0.0 : sum / static_cast<double>(frames);
}

int64_t SpeechCertainty::IndexAt(double time_s) const {
  const double frame = std::round(time_s / frame_shift_s_) - static_cast<double>(forgotten_);
  return static_cast<int64_t>(std::clamp(frame, 0.0, static_cast<double>(probabilities_.size())));
}

}  // namespace antiphon::vad
