// How much memory of its device a worker needs, before it trains.
//
// Counted: weights, what the optimiser keeps, gradients and copies of the model that the strategy or the trainer holds,
// activations and derivatives of the minibatches under way. Apart: the copy of a checkpoint until it is written, which
// is made only where it has room. Not counted: the program, the data's pages, messages under way (a minibatch of one
// layer, or a few MB), and a second copy of the own part for a moment while it is made. Units: bytes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "nn/network.h"

namespace antiphon::train {

struct MemoryNeed {
  size_t weights = 0;
  size_t optimizer = 0;
  size_t copies = 0;  // of the model or its gradients
  size_t activations = 0;
  size_t checkpoint = 0;  // the copy of one; not in the total
  size_t total() const { return weights + optimizer + copies + activations; }
  /// "12.3 MB (weights 4.1, optimiser 4.1, copies 0.0, activations 4.1)"
  std::string Describe() const;
};

/// Parameters and buffers of a network that holds `held` (empty: all) of the outline's layers.
size_t WeightBytes(nn::Network& outline, const std::vector<nn::OutputRange>& held);
/// Outputs, gathered outputs of divided layers, and derivatives of one minibatch; inputs included.
size_t ActivationBytes(nn::Network& network, int64_t frames);

/// Throws UsageError on all ranks, naming the one that needs most, if that is more than `limit_mb`. False: on some rank
/// there is no room for the copy of a checkpoint besides. Collective.
bool RequireToFit(comm::Communicator& comm, const MemoryNeed& mine, double limit_mb);

}  // namespace antiphon::train
