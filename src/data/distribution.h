// How workers share the data of a training; what each way means stands at the top of data/minibatch_pool.h.
#pragma once

#include <array>

#include "base/enum_option.h"

namespace antiphon::data {

enum class Distribution { kAuto, kPool, kShares, kShards };

inline constexpr std::array kDistributions = {
    EnumName{Distribution::kAuto, "auto"}, EnumName{Distribution::kPool, "pool"},
    EnumName{Distribution::kShares, "shares"}, EnumName{Distribution::kShards, "shards"}};

}  // namespace antiphon::data
