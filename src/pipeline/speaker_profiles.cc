#include "pipeline/speaker_profiles.h"

#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "pipeline/load_profile.h"

namespace antiphon::pipeline {

namespace fs = std::filesystem;

SpeakerProfiles::SpeakerProfiles(const ProfileOptions& options, const AcousticModel& model) {
  if (!options.any()) return;
  if (!options.profile.empty() && !options.profiles.empty()) {
    throw UsageError("give either one profile for all (--profile) or a folder of them (--profiles)");
  }
  if (!options.profile.empty()) {
    for_all_ = LoadBoundProfile(options.profile, model.network().get());
    return;
  }
  if (!fs::is_directory(options.profiles)) Throw<InputError>("there is no folder of profiles '{}'", options.profiles);
  for (const auto& entry : fs::directory_iterator(options.profiles)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string speaker = entry.path().stem().string();
    auto bound = LoadBoundProfile(entry.path(), model.network().get());
    if (const std::string& made_for = bound->profile.speaker; !made_for.empty() && made_for != speaker) {
      log::Warn("'{}' was made for speaker '{}', and by its name it is taken for '{}'", entry.path().string(), made_for,
                speaker);
    }
    by_speaker_.emplace(speaker, std::move(bound));
  }
  if (by_speaker_.empty()) Throw<InputError>("no file in '{}' ends in .safetensors", options.profiles);
}

void SpeakerProfiles::RequireOne(const std::set<std::string>& speakers) const {
  if (by_speaker_.empty() || speakers.empty()) return;
  for (const std::string& speaker : speakers) {
    if (by_speaker_.contains(speaker)) return;
  }
  Throw<InputError>(
      "none of the {} profiles is of a speaker of these utterances: expected '{}.safetensors', say, found "
      "'{}.safetensors'",
      by_speaker_.size(), *speakers.begin(), by_speaker_.begin()->first);
}

std::shared_ptr<const infer::BoundProfile> SpeakerProfiles::Of(const std::string& speaker) const {
  const auto found = by_speaker_.find(speaker);
  return found == by_speaker_.end() ? for_all_ : found->second;
}

}  // namespace antiphon::pipeline
