// A speaker's profile (nn/speaker_profile.h) as a plan applies it: which of its parts follow which step.
//
// Made by NnetModel::Bind. Threads: read-only.
#pragma once

#include <span>
#include <vector>

#include "nn/speaker_profile.h"

namespace antiphon::infer {

struct BoundProfile {
  nn::SpeakerProfile profile;
  /// Into profile.parts: what changes a frame's features, in order.
  std::vector<size_t> on_features;
  /// By step of the plan: what changes its output; shorter than the plan where no more follows.
  std::vector<std::vector<size_t>> after_step;
};

/// One for each row of a batch, null for a speaker without; empty: none at all.
using RowProfiles = std::span<const BoundProfile* const>;

/// Applies what follows `step` to each row, in place.
void ApplyProfiles(RowProfiles profiles, size_t step, MatrixView rows);

}  // namespace antiphon::infer
