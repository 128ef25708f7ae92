// Weight decay of a network's single values, for methods that step all of them as one vector.
//
// Layout: as Network::values(). Units: multiples of the value in the gradient of the mean loss per frame. Threads: one.
#pragma once

#include <algorithm>
#include <vector>

#include "nn/network.h"

namespace antiphon::optim {

/// `weight_decay` times each parameter's decay_factor, 0 for frozen ones and gaps. Empty: there is no decay.
inline std::vector<double> ValueDecays(const nn::Network& network, double weight_decay) {
  if (weight_decay == 0) return {};
  std::vector<double> decays(network.num_values(), 0.0);
  for (const nn::Parameter* p : network.parameters()) {
    if (p->learning_rate_factor == 0) continue;
    const double decay = weight_decay * static_cast<double>(p->decay_factor);
    std::fill_n(decays.data() + p->offset, p->value.size(), decay);
  }
  return decays;
}

}  // namespace antiphon::optim
