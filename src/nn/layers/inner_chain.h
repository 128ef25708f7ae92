// A chain of layers inside a layer (residual, bidirectional): its table, its memory and its random masks.
//
// Errors: UsageError with file:line for the key `layers` and what it lists.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nn/network.h"

namespace antiphon::nn {

/// Keys that belong to the network and to the chain: for ReadOptions of the layer's own.
std::vector<std::string> KeysBesideChain();

/// The layers that `layers` lists, whose values lie in the outer network. `purpose`: what they are for, told if there
/// are none. `default_out_dim`: of a last layer that names no `dim`; 0: it has to.
Network MakeChain(const LayerArgs& args, std::string_view purpose, uint64_t seed, int default_out_dim = 0);

/// Puts `layers` into the table of the layer around it.
void SetChain(const Network& chain, Config& config);

/// Some layer of the chain is kept within limits.
bool IsConstrained(Network& chain);

/// For passes through chain `which` of layer `index`: layers inside count from 0 again, and each chain draws its own
/// masks.
ExecContext InsideChain(ExecContext ctx, uint64_t index, uint64_t which);

}  // namespace antiphon::nn
