// Where there is speech in sound that comes in pieces.
//
//   SpeechStream speech(model, options, rate_hz);
//   speech.Accept(samples);                    // any number at a time
//   for (const Run& run : speech.Take()) …     // what became known of it
//   speech.Finish();
//
// Runs are the same, bit for bit, however the sound is cut. What becomes of a frame is known a bounded time later:
// after the frames that the network looks ahead, and TurnFinder::MaxDelay.
//
// Units: samples on the 16-bit scale; frames of SpeechModel::frame_shift_s. Memory does not grow with the sound.
// Threads: one per object; the model is shared. Errors: InputError for samples that are not finite.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "feat/audio.h"
#include "feat/front_end.h"
#include "infer/nnet_scorer.h"
#include "vad/speech_model.h"
#include "vad/turn_finder.h"

namespace antiphon::vad {

class SpeechStream {
 public:
  /// `listener` (none: null) is told each frame's probability of speech.
  SpeechStream(std::shared_ptr<const SpeechModel> model, const VadOptions& options, int rate_hz,
               std::function<void(double probability)> listener = {});

  void Accept(std::span<const float> samples);
  /// No more sound. Once.
  void Finish();
  /// As TurnFinder.
  std::vector<Run> Take() { return turns_.Take(); }
  double frame_shift_s() const { return model_->frame_shift_s(); }

 private:
  void Score();

  std::shared_ptr<const SpeechModel> model_;
  std::function<void(double)> listener_;
  feat::Resampler resampler_;
  std::vector<float> resampled_;
  feat::FrontEndStream frames_;
  infer::NnetScorer scorer_;
  TurnFinder turns_;
  int next_ = 0;  // frame to look at
};

}  // namespace antiphon::vad
