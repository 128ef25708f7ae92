// Training that is given up and begun again where it started.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/small_learner.h"

namespace antiphon::parallel {

/// Hashes of each rank's model after an epoch: one that begins where training did, and one after a detour that was
/// given up, as the trainer gives it up.
inline std::vector<std::pair<uint64_t, uint64_t>> DirectAndAfterADetour(const std::string& keys) {
  return OnRanks(2, [&](comm::Communicator& comm) {
    const auto train = [&](bool detour) {
      Learner learner(keys, comm);
      const std::span<const float> values = learner.network.values();
      const std::vector<float> start(values.begin(), values.end());  // of its part, if the model is divided
      const uint64_t untrained = learner.network.Hash();
      if (detour) {
        learner.Train(100, 106, comm.rank(), 2);
        learner.EndEpoch();
        std::copy(start.begin(), start.end(), learner.network.values().begin());
        learner.network.MarkChanged();
        learner.optimizer->ResetState();
        learner.strategy->ResetState();
      }
      learner.Train(0, 6, comm.rank(), 2);
      learner.EndEpoch();
      EXPECT_NE(learner.network.Hash(), untrained) << "nothing was learned";
      return learner.network.Hash();
    };
    return std::pair{train(false), train(true)};
  });
}

}  // namespace antiphon::parallel
