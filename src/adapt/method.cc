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

void RequireSameSenones(const nn::Model& model, const MethodInput& input, std::string_view method) {
  if (input.num_pdfs > 0 && input.num_pdfs != model.num_pdfs()) {
    Throw<UsageError>(
        "'{}' keeps the model's senones, but the new speech has {} and the model {}: use 'transfer' for "
        "another set of senones",
        method, input.num_pdfs, model.num_pdfs());
  }
  if (!input.hmm_json.empty() && input.hmm_json != model.hmm_json) {
    Throw<UsageError>(
        "'{}' keeps the model's senones, but those of the new speech (--hmm) are others: use 'transfer' "
        "for another set of senones",
        method);
  }
}

}  // namespace antiphon::adapt
