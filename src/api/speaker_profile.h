// Speakers' profiles for a network that was loaded: read, checked and bound; and the public SpeakerProfile from the
// inside.
//
// Errors of both Load functions, behind the file's name: what is wrong with the file, or which model the profile is for
// (InputError, IoError); without it: UsageError for no network (a Gaussian mixture).
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "antiphon/speaker_profile.h"
#include "infer/nnet_scorer.h"

namespace antiphon {

/// For models whose profiles come later: in fp32 a network scores the same whether it is adaptable or not.
infer::NnetScorerOptions AdaptableOptions();

/// The network must be adaptable; null: none.
std::shared_ptr<const infer::BoundProfile> LoadBoundProfile(const std::filesystem::path& path,
                                                            const infer::NnetModel* network);

struct SpeakerProfile::Impl {
  std::shared_ptr<const infer::NnetModel> network;
  std::shared_ptr<const infer::BoundProfile> bound;
};

struct SpeakerProfileAccess {
  static SpeakerProfile Load(const std::string& file, std::shared_ptr<const infer::NnetModel> network);
  /// Null: none. UsageError unless `network` loaded the profile.
  static std::shared_ptr<const infer::BoundProfile> Bound(const SpeakerProfile& profile,
                                                          const infer::NnetModel* network);
};

}  // namespace antiphon
