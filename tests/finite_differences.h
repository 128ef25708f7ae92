// Central differences of a loss by a network's values, for tests of derivatives.
#pragma once

#include <cstdint>

#include "nn/network.h"

namespace antiphon::testing {

/// Calls body(parameter, index, difference) for every `every`-th value of each parameter: what `loss()` changes by per
/// unit of it. The values are as before then.
template <class Loss, class Body>
void ForDifferences(nn::Network& network, int64_t every, float step, const Loss& loss, const Body& body) {
  for (nn::Parameter* p : network.parameters()) {
    for (int64_t i = 0; i < p->value.size(); i += every) {
      float& v = p->value.data()[i];
      const float old = v;
      const auto at = [&](float value) {
        v = value;
        network.MarkChanged();
        return loss();
      };
      const double up = at(old + step), down = at(old - step);
      v = old;
      network.MarkChanged();
      body(*p, i, (up - down) / (2 * static_cast<double>(step)));
    }
  }
}

}  // namespace antiphon::testing
