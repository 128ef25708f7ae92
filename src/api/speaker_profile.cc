#include "api/speaker_profile.h"

#include "base/error.h"
#include "pipeline/load_profile.h"

namespace antiphon {

std::string SpeakerProfile::speaker() const { return impl_ ? impl_->bound->profile.speaker : ""; }

SpeakerProfile SpeakerProfileAccess::Load(const std::string& file, std::shared_ptr<const infer::NnetModel> network) {
  SpeakerProfile profile;
  auto bound = LoadBoundProfile(file, network.get());
  profile.impl_ =
      std::make_shared<const SpeakerProfile::Impl>(SpeakerProfile::Impl{std::move(network), std::move(bound)});
  return profile;
}

std::shared_ptr<const infer::BoundProfile> SpeakerProfileAccess::Bound(const SpeakerProfile& profile,
                                                                       const infer::NnetModel* network) {
  if (!profile.impl_) return nullptr;
  if (profile.impl_->network.get() != network) {
    Throw<UsageError>(
        "the profile{} was loaded by another model or recogniser: load its file with the one that is to use it",
        profile.speaker().empty() ? "" : fmt::format(" of '{}'", profile.speaker()));
  }
  return profile.impl_->bound;
}

}  // namespace antiphon
