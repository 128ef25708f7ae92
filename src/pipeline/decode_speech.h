// What a decoding recognises: the utterances of a data directory that have features, who speaks in them, and what was
// really said.
//
// Threads: const methods may run together. Errors: InputError naming directory and table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/team.h"
#include "data/feature_source.h"
#include "pipeline/decode_references.h"
#include "pipeline/decode_request.h"
#include "pipeline/recognition_system.h"
#include "pipeline/speaker_profiles.h"
#include "pipeline/utterance_features.h"

namespace antiphon::pipeline {

class DecodeSpeech {
 public:
  /// Computes features if the directory has none. Collective. `system` must outlive this. Every speaker needs one of
  /// the profiles, if there are any.
  DecodeSpeech(const DecodeRequest& request, const RecognitionSystem& system, const SpeakerProfiles& profiles,
               int num_threads, Team& team);

  const std::vector<std::string>& utterances() const { return utterances_; }
  /// Of these, as FeatureSource::Sizes.
  const std::vector<int64_t>& sizes() const { return sizes_; }
  const DecodeReferences& references() const { return references_; }

  bool Has(const std::string& utt_id) const { return features_.Has(utt_id); }
  std::shared_ptr<UtteranceFeatures> Features(const std::string& utt_id) const {
    return std::make_shared<StoredFeatures>(features_, utt_id);
  }
  std::string Speaker(const std::string& utt_id) const { return features_.Speaker(utt_id); }

 private:
  // Utterances of the data directory that have features; all of the table without a data directory.
  void ChooseUtterances(const DecodeRequest& request);
  // Of at least one utterance, for choosing weights.
  void RequireReference(const DecodeRequest& request) const;

  DecodeReferences references_;
  data::FeatureSource features_;
  std::vector<std::string> utterances_;
  std::vector<int64_t> sizes_;
};

}  // namespace antiphon::pipeline
