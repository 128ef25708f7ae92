// After adaptation: layers learn as they did before, and side heads are gone.
#pragma once

#include "nn/model.h"

namespace antiphon::adapt {

/// Learning rates, limits and frozen statistics of layers that `original` has too are as there; side tasks are removed.
/// Values and outputs stay as they are.
void Restore(nn::Model& adapted, const nn::Model& original);

/// Keeps the network's outputs but takes side tasks out.
void RemoveSideTasks(nn::Network& network);

}  // namespace antiphon::adapt
