// Batch normalisation as part of the weights around it, for scoring.
//
// Behind a dense layer, with a relu between them or nothing: its scale, which is positive, goes into the rows of the
// weights below, its offset through the weights above into their bias. Outputs stay as they were, up to rounding, and a
// layer's products, bias, relu and rounding to 8 bits are one step of the runtime (infer/plan.h).
// Threads: plain function.
#pragma once

#include <string>
#include <vector>

#include "compress/network_parts.h"

namespace antiphon::compress {

/// `parts` are those of `network`. Returns the names of the layers that went; what cannot be folded stays.
std::vector<std::string> FoldNormalization(const nn::Network& network, std::vector<LayerParts>& parts);

}  // namespace antiphon::compress
