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
  /// What changes the output of a step of the plan.
  struct Change {
    std::vector<float> factors;  // that the step itself applies; whole panels of 64; empty: none
    std::vector<size_t> parts;   // after it, in order
  };
  /// By step; shorter than the plan where no more follows.
  std::vector<Change> after_step;
};

/// One for each row of a batch, null for a speaker without; empty: none at all.
using RowProfiles = std::span<const BoundProfile* const>;

/// For each row the factors that `step` applies, or null, written to `factors`; null if no row has any.
const float* const* FactorsOf(RowProfiles profiles, size_t step, std::span<const float*> factors);

/// Whether parts follow `step` in any row.
bool AnyPartsAfter(RowProfiles profiles, size_t step);

/// Applies the parts that follow `step` to each row, in place.
void ApplyProfiles(RowProfiles profiles, size_t step, MatrixView rows);

}  // namespace antiphon::infer
