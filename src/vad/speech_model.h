// A network that tells speech from other sound: what `antiphon train` makes of a frame store with two classes, 0 for
// other sound and 1 for speech.
//
// It brings its own front end, at a rate of its own, whatever the recogniser's is.
// Threads: const methods may run together; the plan is shared by all streams. Errors: InputError naming the file, for
// a network that is none of this kind.
#pragma once

#include <filesystem>
#include <memory>

#include "feat/front_end.h"
#include "infer/nnet_scorer.h"

namespace antiphon::vad {

class SpeechModel {
 public:
  static std::shared_ptr<const SpeechModel> Load(const std::filesystem::path& file);

  const feat::FrontEnd& front_end() const { return front_end_; }
  const std::shared_ptr<const infer::NnetModel>& network() const { return network_; }
  double frame_shift_s() const { return front_end_.options().frame_shift_ms / 1000.0; }

 private:
  SpeechModel(feat::FrontEnd front_end, std::shared_ptr<const infer::NnetModel> network);

  feat::FrontEnd front_end_;
  std::shared_ptr<const infer::NnetModel> network_;
};

}  // namespace antiphon::vad
