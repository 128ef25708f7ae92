#include "adapt/method.h"

#include "base/error.h"

namespace antiphon::adapt {

AlignedSpeech& RequireNewSpeech(const MethodInput& input, std::string_view method) {
  if (input.new_speech == nullptr) Throw<UsageError>("'{}' needs aligned speech to adapt to", method);
  return *input.new_speech;
}

AlignedSpeech& RequireOldSpeech(const MethodInput& input, std::string_view method) {
  if (input.old_speech == nullptr) {
    Throw<UsageError>("'{}' needs speech that the model was trained on: give its frame store (--old-store)", method);
  }
  return *input.old_speech;
}

}  // namespace antiphon::adapt
