// What the layers of a network see when frames go through it.
//
// Shapes: inputs [N, in_dim] of single layers. Threads: one. Errors: those of the network.
#pragma once

#include <functional>

#include "compress/method.h"
#include "compress/network_parts.h"
#include "math/linalg.h"

namespace antiphon::compress {

/// Calls use(layer, its input, its output) for all layers and all batches of frames, as when scoring. The matrices are
/// valid during the call. A function that the layer below computes with its own product is not passed on its own; the
/// output is then that after the function. Layers are numbered as TakeApart gives them.
void ForLayers(const nn::Network& network, Shortcuts shortcuts, InputFrames& frames,
               const std::function<void(size_t layer, ConstMatrixView x, ConstMatrixView y)>& use);

/// Mean of x·xᵀ over the inputs of the layers, symmetric [in, in]; empty for those that are not asked for. `parts`: of
/// the network, its shortcuts opened.
std::vector<DoubleMatrix> SecondMoments(const nn::Network& network, const std::vector<LayerParts>& parts,
                                        InputFrames& frames, const std::vector<size_t>& layers);

/// Mean over frames of KL(p ‖ q), nats, of the two networks' softmax outputs; heads are looked at one by one.
double OutputDivergence(const nn::Model& p, const nn::Model& q, InputFrames& frames);

}  // namespace antiphon::compress
