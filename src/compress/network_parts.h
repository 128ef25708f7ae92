// The parts of networks (nn/network_parts.h), as compression methods call them, and the refusals that methods share.
//
// Threads: plain functions. Errors: UsageError that names the method, the layers and what to do.
#pragma once

#include <string>
#include <vector>

#include "nn/network_parts.h"

namespace antiphon::compress {

using nn::BiasOf;
using nn::IsDense;
using nn::LayerChoice;
using nn::LayerParts;
using nn::MakeLayer;
using nn::NetworkSize;
using nn::PutTogether;
using nn::Shortcuts;
using nn::SizeOf;
using nn::TakeApart;

/// Types of layers whose weights stand in the file as they are computed with: "affine", "linear".
std::vector<std::string> PlainTypes();

/// Indices of the layers of `types` that `method` works on (nn::ChooseLayers); UsageError if none is left.
std::vector<size_t> LayersFor(const std::string& method, const std::vector<LayerParts>& parts,
                              const std::vector<std::string>& types, const LayerChoice& choice);

/// "; the weights inside 'lstm1' (lstm) stay as they are" for the layers that hold others than dense ones, "" if there
/// are none: the end of a message that says that nothing can be done.
std::string WeightsThatStay(const std::vector<LayerParts>& parts);

}  // namespace antiphon::compress
