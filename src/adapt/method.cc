#include "adapt/method.h"

#include "base/error.h"

namespace antiphon::adapt {

AlignedSpeech& RequireNewSpeech(const MethodInput& input, std::string_view method) {
  if (input.new_speech == nullptr) Throw<UsageError>("'{}' needs aligned speech to adapt to", method);
  return *input.new_speech;
}

AlignedSpeech& RequireOldSpeech(const MethodInput& input, std::string_view method) {
  if (input.old_speech == nullptr) RefuseMissingOldSpeech(method);
  return *input.old_speech;
}

void RefuseMissingOldSpeech(std::string_view method) {
  Throw<UsageError>("'{}' needs speech that the model was trained on: give its frame store (--old-store)", method);
}

bool HasOtherSenones(const nn::Model& model, int num_pdfs, std::string_view hmm_json) {
  return num_pdfs != model.num_pdfs() || (!hmm_json.empty() && hmm_json != model.hmm_json);
}

void RequireSameSenones(const nn::Model& model, const MethodInput& input, std::string_view method) {
  const int num_pdfs = input.num_pdfs > 0 ? input.num_pdfs : model.num_pdfs();
  if (!HasOtherSenones(model, num_pdfs, input.hmm_json)) return;
  Throw<UsageError>(
      "'{}' keeps the model's {} senones, but the {} of the new speech are others: use 'transfer' for another set of "
      "senones",
      method, model.num_pdfs(), num_pdfs);
}

}  // namespace antiphon::adapt
