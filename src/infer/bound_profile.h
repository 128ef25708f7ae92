// A speaker's profile (nn/speaker_profile.h) as a plan applies it: which of its parts follow which step.
//
// Made by NnetModel::Bind. Threads: read-only.
#pragma once

#include <span>
#include <vector>

#include "infer/profile_part.h"
#include "nn/speaker_profile.h"

namespace antiphon::infer {

struct BoundProfile {
  nn::SpeakerProfile profile;
  /// What changes a frame's features, in order; in fp32, as their dynamic range asks for.
  std::vector<ProfilePart> on_features;
  /// What changes the output of a step of the plan.
  struct Change {
    std::vector<float> factors;      // that the step itself applies; whole panels of 64; empty: none
    std::vector<ProfilePart> parts;  // after it, in order
  };
  /// By step; shorter than the plan where no more follows.
  std::vector<Change> after_step;
};

/// One for each row of a batch, or for each of its streams; null for a speaker without; empty: none at all.
using RowProfiles = std::span<const BoundProfile* const>;

/// Consecutive rows of one speaker: what a plan looks at in each step.
struct ProfileRun {
  const BoundProfile* profile = nullptr;
  int first_row = 0;
  int rows = 0;
};

/// Both clear `runs` first, and allocate nothing if it has room for one per row.
void FindRuns(RowProfiles of_rows, std::vector<ProfileRun>& runs);
/// rows[i] consecutive rows are of stream i.
void FindRuns(RowProfiles of_streams, std::span<const int> rows, std::vector<ProfileRun>& runs);

struct StepChanges {
  /// For each row the factors that the step applies, or null; null if no row has any.
  const float* const* factors = nullptr;
  /// Whether parts follow the step in any row.
  bool parts = false;
};

/// `factors` is where each row's are written to.
StepChanges ChangesOf(std::span<const ProfileRun> runs, size_t step, std::span<const float*> factors);

/// Applies the parts that follow `step` to each row, in place; `converted` and `product`: memory of
/// RowsBytes(rows.rows, rows.dim).
void ApplyParts(std::span<const ProfileRun> runs, size_t step, const Rows& rows, std::byte* converted,
                std::byte* product);

}  // namespace antiphon::infer
