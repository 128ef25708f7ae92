// A speaker's profile, and the same as a network of the speaker's own: factors that are powers of two, folded into the
// weights behind them, so that both score the same to the last bit.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "nn/model.h"
#include "nn/speaker_profile.h"

namespace antiphon::testing {

/// Factors for the values behind layer `after` ("": for a frame's features).
inline nn::SpeakerProfile::Part PowersOfTwo(const std::string& after, int64_t dim, uint64_t seed) {
  nn::SpeakerProfile::Part part;
  part.after = after;
  part.scale = Matrix(1, dim);
  Rng rng(seed);
  for (float& factor : part.scale.Row(0)) factor = std::exp2(static_cast<float>(rng.Below(5)) - 2.0F);
  return part;
}

/// `model` with the part's factors in the columns of the parameter that reads what it changes.
inline nn::Model Folded(const nn::Model& model, const nn::SpeakerProfile::Part& part, const std::string& parameter) {
  nn::Model own = model.Clone();
  for (nn::Parameter* p : own.network.parameters()) {
    if (p->name != parameter) continue;
    for (int64_t r = 0; r < p->value.rows(); ++r) {
      for (int64_t c = 0; c < p->value.cols(); ++c) p->value(r, c) *= part.scale(0, c % part.scale.cols());
    }
    p->MarkChanged();
  }
  return own;
}

}  // namespace antiphon::testing
