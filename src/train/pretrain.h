// Gives the hidden layers good values before the training proper, by growing the network from below.
//
// "discriminative" (Seide et al., ASRU 2011): the lowest hidden layer with a fresh output layer learns briefly, the
// output layer is thrown away, the next hidden layer is put on top with another fresh one, all of it learns, and so on.
// "layer-wise": the same with the layers below held fast. "rbm": each affine + sigmoid pair is trained as a restricted
// Boltzmann machine by contrastive divergence (optim/rbm.h); the lowest has Gaussian inputs. A hidden block is a layer
// with trainable parameters and the layers above it up to the next such one. Deterministic; a run that is stopped or
// killed here goes on from its last checkpoint bit-identically. Errors: UsageError for networks that a method does not
// fit; Cancelled after a signal, with everything saved.
#pragma once

#include "train/worker.h"

namespace antiphon::train {

/// Trains and copies the result into worker.network(), going on where its loader says, if anywhere.
/// Does nothing for method "none".
void Pretrain(const TrainingTask& task, const TrainOptions& options, comm::Communicator& comm, Worker& worker);

}  // namespace antiphon::train
