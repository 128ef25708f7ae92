// Speakers' profiles for a command that scores: one for all speech, or one per speaker from a folder.
//
// Errors: InputError naming file and model where a profile is for another model; UsageError for a model without a
// network.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/options.h"
#include "pipeline/acoustic_model.h"

namespace antiphon::pipeline {

struct ProfileOptions {
  std::string profile;
  std::string profiles;
  template <class V>
  void Visit(V& v) {
    v("profile", profile, "speaker's profile (antiphon adapt makes it) for all utterances");
    v("profiles", profiles, "folder with a profile per speaker, SPEAKER.safetensors; speakers without one have none");
  }
  bool any() const { return !profile.empty() || !profiles.empty(); }
};

class SpeakerProfiles {
 public:
  /// The model must be adaptable if the options name any.
  SpeakerProfiles(const ProfileOptions& options, const AcousticModel& model);
  /// Throws InputError if the profiles are speakers' and none of them is of one of `speakers`.
  void RequireOne(const std::set<std::string>& speakers) const;
  /// Null: none.
  std::shared_ptr<const infer::BoundProfile> Of(const std::string& speaker) const;
  size_t size() const { return by_speaker_.size() + (for_all_ ? 1 : 0); }

 private:
  std::shared_ptr<const infer::BoundProfile> for_all_;
  std::map<std::string, std::shared_ptr<const infer::BoundProfile>> by_speaker_;
};

}  // namespace antiphon::pipeline
