#include "vad/speech_stream.h"

#include <cmath>
#include <utility>

namespace antiphon::vad {

SpeechStream::SpeechStream(std::shared_ptr<const SpeechModel> model, const VadOptions& options, int rate_hz,
                           std::function<void(double)> listener)
    : model_(std::move(model)),
      listener_(std::move(listener)),
      resampler_(rate_hz, model_->front_end().options().sample_rate_hz),
      frames_(model_->front_end()),
      scorer_(model_->network()),
      turns_(options, model_->frame_shift_s()) {}

void SpeechStream::Accept(std::span<const float> samples) {
  resampled_.clear();
  resampler_.Accept(samples, resampled_);
  frames_.Accept(resampled_);
  Score();
}

void SpeechStream::Finish() {
  resampled_.clear();
  resampler_.Finish(resampled_);
  frames_.Accept(resampled_);
  frames_.Finish();
  Score();
  scorer_.Finish();
  Score();
  turns_.Finish();
}

void SpeechStream::Score() {
  if (frames_.frames_ready() > 0) scorer_.Accept(frames_.Take());
  while (next_ < scorer_.num_frames_ready()) {
    const std::span<const float> scores = scorer_.DenseFrame(next_++);
    const double probability = 1.0 / (1.0 + std::exp(static_cast<double>(scores[0]) - scores[1]));
    if (listener_) listener_(probability);
    turns_.Accept(probability);
  }
}

}  // namespace antiphon::vad
