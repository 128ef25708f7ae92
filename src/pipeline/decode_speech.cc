#include "pipeline/decode_speech.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "pipeline/feature_tables.h"
#include "score/transcript.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

data::FeatureSourceOptions Tables(const DecodeRequest& request, const AcousticModel& model, int num_threads,
                                  Team& team) {
  return FindFeatureTables(
      {request.data, request.model, model.features(), TablesAsNamed(request, model), request.data_dir, request.out,
       /*silent_recordings=*/true, model.normalisation(), /*long_in_parts=*/true},
      num_threads, team);
}

}  // namespace

DecodeSpeech::DecodeSpeech(const DecodeRequest& request, const RecognitionSystem& system,
                           const SpeakerProfiles& profiles, int num_threads, Team& team)
    : references_(request.data, system.graph()), features_(Tables(request, system.model(), num_threads, team)) {
  if (request.tune && !references_.known()) throw UsageError("--tune needs a data directory with text");
  ChooseUtterances(request);
  if (request.tune) RequireReference(request);
  sizes_ = features_.Sizes(utterances_);
  if (profiles.size() == 0) return;
  std::set<std::string> speakers;
  for (const std::string& utt_id : utterances_) speakers.insert(features_.Speaker(utt_id));
  profiles.RequireOne(speakers);
}

void DecodeSpeech::ChooseUtterances(const DecodeRequest& request) {
  const fs::path utt2spk = fs::path(request.data) / "utt2spk";
  if (!fs::exists(utt2spk)) {
    utterances_ = features_.keys();
    return;
  }
  std::vector<std::string> missing;
  for (const auto& [utt_id, speaker] : score::ReadUtteranceMap(utt2spk)) {
    (features_.Has(utt_id) ? utterances_ : missing).push_back(utt_id);
  }
  if (utterances_.empty()) {
    Throw<InputError>("none of the {} utterances of '{}' has features", missing.size(), request.data);
  }
  if (!missing.empty()) {
    log::Warn("{} utterances have no features and give no words, the first: {}", missing.size(), missing[0]);
  }
}

void DecodeSpeech::RequireReference(const DecodeRequest& request) const {
  const auto known = [&](const std::string& utt_id) { return references_.Has(utt_id); };
  if (std::any_of(utterances_.begin(), utterances_.end(), known)) return;
  Throw<InputError>("--tune: '{}' has a transcript of none of the {} utterances that are decoded, the first: '{}'",
                    (fs::path(request.data) / "text").string(), utterances_.size(),
                    utterances_.empty() ? "" : utterances_[0]);
}

}  // namespace antiphon::pipeline
