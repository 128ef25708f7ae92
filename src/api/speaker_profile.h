// The public SpeakerProfile from the inside.
//
// Errors: those of LoadBoundProfile (pipeline/load_profile.h).
#pragma once

#include <memory>
#include <string>

#include "antiphon/speaker_profile.h"
#include "api/internal.h"
#include "infer/nnet_scorer.h"

namespace antiphon {

struct ANTIPHON_INTERNAL SpeakerProfile::Impl {
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
