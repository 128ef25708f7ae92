// A direction in the space of a network's parameters, for products with matrices of their size.
#pragma once

#include <vector>

#include "base/random.h"
#include "nn/network.h"

namespace antiphon::optim {

/// Normal numbers, laid out as Network::values(); the gaps between parameters stay 0.
inline std::vector<float> Direction(const nn::Network& network, uint64_t seed) {
  std::vector<float> v(network.num_values(), 0.0f);
  Rng rng(seed);
  for (const nn::Parameter* p : network.parameters()) {
    for (int64_t j = 0; j < p->value.size(); ++j) {
      v[static_cast<size_t>(p->offset + j)] = static_cast<float>(rng.Normal());
    }
  }
  return v;
}

}  // namespace antiphon::optim
