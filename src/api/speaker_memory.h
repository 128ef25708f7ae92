// The public SpeakerMemory from the inside.
#pragma once

#include <memory>

#include "antiphon/speaker_memory.h"
#include "api/internal.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/speaker_memory.h"

namespace antiphon {

struct ANTIPHON_INTERNAL SpeakerMemory::Impl {
  RememberedSpeaker values;
  std::shared_ptr<const AcousticModel> model;  // with which it began; null: not yet
};

struct SpeakerMemoryAccess {
  /// Of the model's, from now on. UsageError if it is another's.
  static RememberedSpeaker& Values(SpeakerMemory& memory, const std::shared_ptr<const AcousticModel>& model);
  static const RememberedSpeaker& Values(const SpeakerMemory& memory, const AcousticModel& model);
};

}  // namespace antiphon
