#include "infer/bound_profile.h"

#include <algorithm>

namespace antiphon::infer {
namespace {

const BoundProfile::Change* ChangeAfter(const BoundProfile* profile, size_t step) {
  return profile == nullptr || step >= profile->after_step.size() ? nullptr : &profile->after_step[step];
}

}  // namespace

void FindRuns(RowProfiles of_rows, std::vector<ProfileRun>& runs) {
  runs.clear();
  for (int r = 0; r < static_cast<int>(of_rows.size()); ++r) {
    const BoundProfile* const profile = of_rows[static_cast<size_t>(r)];
    if (runs.empty() || runs.back().profile != profile) runs.push_back({profile, r, 0});
    ++runs.back().rows;
  }
}

void FindRuns(RowProfiles of_streams, std::span<const int> rows, std::vector<ProfileRun>& runs) {
  runs.clear();
  int first = 0;
  for (size_t s = 0; s < of_streams.size(); ++s) {
    if (rows[s] > 0) runs.push_back({of_streams[s], first, rows[s]});
    first += rows[s];
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

void ApplyParts(std::span<const ProfileRun> runs, size_t step, const Rows& rows, std::byte* converted,
                std::byte* product) {
  for (const ProfileRun& run : runs) {
    const BoundProfile::Change* const change = ChangeAfter(run.profile, step);
    if (change == nullptr) continue;
    Rows own = rows;
    own.rows = run.rows;
    own.data = rows.Row<std::byte>(run.first_row);
    const Rows changed = PlaceRows(product, DataType::kFloat32, own.rows, own.dim);
    for (const ProfilePart& part : change->parts) {
      part.Run(own, converted, changed);
      for (int r = 0; r < own.rows; ++r) std::copy_n(changed.Row<float>(r), own.dim, own.Row<float>(r));
    }
  }
}

}  // namespace antiphon::infer
