// Elementwise functions that follow a product.
#pragma once

namespace antiphon {

/// A product can apply them while its result is still in the cache.
enum class Activation { kNone, kRelu, kSigmoid, kTanh };

}  // namespace antiphon
