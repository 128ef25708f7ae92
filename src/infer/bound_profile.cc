#include "infer/bound_profile.h"

#include <algorithm>

namespace antiphon::infer {
namespace {

const BoundProfile::Change* ChangeAfter(const BoundProfile* profile, size_t step) {
  return profile == nullptr || step >= profile->after_step.size() ? nullptr : &profile->after_step[step];
}

}  // namespace

void FindRuns(RowProfiles profiles, std::vector<ProfileRun>& runs) {
  runs.clear();
  for (int r = 0; r < static_cast<int>(profiles.size()); ++r) {
    const BoundProfile* const profile = profiles[static_cast<size_t>(r)];
    if (runs.empty() || runs.back().profile != profile) runs.push_back({profile, r, 0});
    ++runs.back().rows;
  }
}

StepChanges ChangesOf(std::span<const ProfileRun> runs, size_t step, std::span<const float*> factors) {
  StepChanges changes;
  for (const ProfileRun& run : runs) {
    const BoundProfile::Change* const change = ChangeAfter(run.profile, step);
    const float* const own = change == nullptr || change->factors.empty() ? nullptr : change->factors.data();
    std::fill_n(factors.begin() + run.first_row, run.rows, own);
    if (own != nullptr) changes.factors = factors.data();
    changes.parts = changes.parts || (change != nullptr && !change->parts.empty());
  }
  return changes;
}

void ApplyParts(std::span<const ProfileRun> runs, size_t step, MatrixView rows) {
  for (const ProfileRun& run : runs) {
    const BoundProfile::Change* const change = ChangeAfter(run.profile, step);
    if (change == nullptr) continue;
    const MatrixView own = rows.Rows(run.first_row, run.rows);
    for (const size_t part : change->parts) nn::ApplyPart(run.profile->profile.parts[part], own, own);
  }
}

}  // namespace antiphon::infer
