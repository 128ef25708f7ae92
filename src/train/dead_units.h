// Hidden units that have died in training: relus whose outputs do not vary over the data, mostly as they are zero for
// every frame. Weight decay or too high a rate does that, and they seldom come back, as no gradient reaches them.
//
// Known where batch normalisation stands behind the relu: its running statistics are looked at, no data are. Threads:
// plain functions.
#pragma once

#include <string>
#include <vector>

#include "nn/network.h"

namespace antiphon::train {

/// One line for each layer of which more than a tenth of the units are dead, from the bottom up.
std::vector<std::string> DescribeDeadUnits(const nn::Network& network);

}  // namespace antiphon::train
