#include "api/speaker_memory.h"

#include <utility>

#include "base/error.h"

namespace antiphon {

SpeakerMemory::SpeakerMemory(const std::string& speaker) : impl_(std::make_unique<Impl>()) {
  impl_->values.speaker = speaker;
}
SpeakerMemory::~SpeakerMemory() = default;
SpeakerMemory::SpeakerMemory(const SpeakerMemory& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
SpeakerMemory& SpeakerMemory::operator=(const SpeakerMemory& other) {
  *impl_ = *other.impl_;
  return *this;
}

std::string SpeakerMemory::speaker() const { return impl_->values.speaker; }

const RememberedSpeaker& SpeakerMemoryAccess::Values(const SpeakerMemory& memory, const AcousticModel& model) {
  if (memory.impl_->model && memory.impl_->model.get() != &model) {
    Throw<UsageError>("the memory{} began with another recogniser: each has its own of a speaker",
                      memory.speaker().empty() ? "" : fmt::format(" of '{}'", memory.speaker()));
  }
  return memory.impl_->values;
}

RememberedSpeaker& SpeakerMemoryAccess::Values(SpeakerMemory& memory,
                                               const std::shared_ptr<const AcousticModel>& model) {
  static_cast<void>(Values(std::as_const(memory), *model));
  memory.impl_->model = model;
  return memory.impl_->values;
}

}  // namespace antiphon
