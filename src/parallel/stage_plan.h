// Cuts a network into consecutive stages of equal work.
//
// Units: cost of a layer is in multiply-adds per frame and pass (modelled), or seconds (measured); only ratios matter.
// Threads: free functions. Errors: UsageError if there are more stages than the network can be cut into.
// Source: dynamic programming over cuts; algorithms reference 1.6.
#pragma once

#include <span>
#include <vector>

#include "nn/network.h"

namespace antiphon::parallel {

/// Weights of each layer, and a little for every output: what a layer costs, the same on every machine. Layers above
/// one with a stride have as many rows less; the rows that context adds to a chunk are left out, and so is that a
/// convolution uses its weights at several places: what lies low costs more than this says.
std::vector<double> ModelledLayerCosts(nn::Network& network);
/// Seconds of one forward and backward pass of each layer over `frames` random frames, gradients included; layers that
/// another one computes along count there. Layers with context give so many frames, of several streams. An outline will
/// do: one layer at a time is made for it.
std::vector<double> MeasuredLayerCosts(const nn::Network& network, nn::ExecContext context, int frames);

/// The cut of the lowest layer_costs.size() layers into `stages` ranges that makes the dearest one cheapest; among
/// those the one with the longest lower stages. No stage begins right above a splice, whose copies would be sent.
std::vector<nn::LayerRange> BalanceStages(const nn::Network& network, std::span<const double> layer_costs, int stages);
/// The cut whose stages begin with the given layers, the first of which is 0.
std::vector<nn::LayerRange> StagesFrom(const nn::Network& network, std::span<const int> first_layers);

}  // namespace antiphon::parallel
