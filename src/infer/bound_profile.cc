#include "infer/bound_profile.h"

#include <algorithm>

namespace antiphon::infer {
namespace {

const BoundProfile::Change* ChangeAfter(const BoundProfile* profile, size_t step) {
  return profile == nullptr || step >= profile->after_step.size() ? nullptr : &profile->after_step[step];
}

}  // namespace

const float* const* FactorsOf(RowProfiles profiles, size_t step, std::span<const float*> factors) {
  bool any = false;
  for (size_t r = 0; r < profiles.size(); ++r) {
    const BoundProfile::Change* change = ChangeAfter(profiles[r], step);
    factors[r] = change == nullptr || change->factors.empty() ? nullptr : change->factors.data();
    any = any || factors[r] != nullptr;
  }
  return any ? factors.data() : nullptr;
}

bool AnyPartsAfter(RowProfiles profiles, size_t step) {
  return std::any_of(profiles.begin(), profiles.end(), [&](const BoundProfile* profile) {
    const BoundProfile::Change* change = ChangeAfter(profile, step);
    return change != nullptr && !change->parts.empty();
  });
}

void ApplyProfiles(RowProfiles profiles, size_t step, MatrixView rows) {
  for (size_t r = 0; r < profiles.size(); ++r) {
    const BoundProfile::Change* change = ChangeAfter(profiles[r], step);
    if (change == nullptr) continue;
    const MatrixView row = rows.Rows(static_cast<int64_t>(r), 1);
    for (const size_t part : change->parts) nn::ApplyPart(profiles[r]->profile.parts[part], row, row);
  }
}

}  // namespace antiphon::infer
