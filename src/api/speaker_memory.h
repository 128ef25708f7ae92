// The public SpeakerMemory from the inside.
#pragma once

#include <memory>

#include "antiphon/speaker_memory.h"
#include "api/internal.h"
#include "infer/nnet_scorer.h"
#include "pipeline/speaker_memory.h"

namespace antiphon {

struct ANTIPHON_INTERNAL SpeakerMemory::Impl {
  RememberedSpeaker values;
  std::shared_ptr<const infer::NnetModel> network;  // with which it began; null: not yet
};

struct SpeakerMemoryAccess {
  /// Of the model's, from now on. UsageError if it is another's.
  static RememberedSpeaker& Values(SpeakerMemory& memory, const AcousticModel& model);
  static const RememberedSpeaker& Values(const SpeakerMemory& memory, const AcousticModel& model);
};

}  // namespace antiphon
