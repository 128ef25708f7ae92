// The same network with narrower layers: what a student of the same kind is made of.
//
// Whatever sets how wide a layer is (`dim`, `projection`, `filters`) is multiplied by `width` and brought to a multiple
// of 8, for the kernels' sake, from 8 on; inside `residual` and `bidirectional` layers too. The layer that gives the
// output keeps its width, and a shortcut's chain ends as wide as what comes in. Layers that hold rounded, masked or
// repeated weights become affine ones. Context, strides and everything else stay.
// Threads: plain functions. Errors: UsageError if the narrower layers do not fit together.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"

namespace antiphon::compress {

/// `layers` are tables as Network::ToToml gives them, for inputs of in_dim values. 0 < width <= 1.
std::vector<Config> Narrower(const std::vector<Config>& layers, int in_dim, double width);

/// The key that sets the number of a layer's outputs, all of them or those at each frequency; "" if the layer takes its
/// width from its input, or transforms features.
std::string WidthKey(const Config& layer);

/// Outputs of a chain of layers; in_dim if there are none.
int OutDim(const std::vector<Config>& layers, int in_dim);

}  // namespace antiphon::compress
