#include "infer/bound_profile.h"

namespace antiphon::infer {

void ApplyProfiles(RowProfiles profiles, size_t step, MatrixView rows) {
  for (size_t r = 0; r < profiles.size(); ++r) {
    if (profiles[r] == nullptr || step >= profiles[r]->after_step.size()) continue;
    const MatrixView row = rows.Rows(static_cast<int64_t>(r), 1);
    for (const size_t part : profiles[r]->after_step[step]) nn::ApplyPart(profiles[r]->profile.parts[part], row, row);
  }
}

}  // namespace antiphon::infer
