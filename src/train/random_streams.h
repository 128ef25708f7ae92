// The independent streams of random numbers that a training run draws from its seed, all in one place.
//
// Threads: plain functions.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace antiphon::train {

/// Values are part of what a run's seed means: do not change them, add new ones at the end.
enum class RandomStream : uint64_t {
  kNetwork = 1,   // initial weights
  kData = 2,      // order of minibatches
  kMasks = 3,     // dropout and masks of each step
  kHeldOut = 4,   // which utterances are held out, and which of them an epoch evaluates
  kSideTask = 5,  // its classifier, and the order of its speech
  kPretrain = 5,  // fresh output layers, unless there is a side task
  kPretrainRbm = 6,
  kPretrainBesideSideTask = 7,
};

inline uint64_t SeedOf(uint64_t run_seed, RandomStream stream) {
  return MixSeed(run_seed, static_cast<uint64_t>(stream));
}

}  // namespace antiphon::train
