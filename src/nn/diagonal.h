// Layers that scale and shift each value by itself, such as normalisation with its running statistics: as numbers.
#pragma once

#include "math/matrix.h"
#include "nn/layer.h"

namespace antiphon::nn {

/// y = x·scale + offset, per dimension, when scoring: [2, dim], row 0 the offset, row 1 the scale.
Matrix OffsetAndScale(const Layer& layer);

}  // namespace antiphon::nn
