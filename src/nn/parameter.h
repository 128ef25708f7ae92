// One trainable (or stored) matrix of a layer.
//
// Values live in one block of memory per Network (network.h), so that a whole model is one contiguous span: averaging,
// exchange and checkpoints need no per-layer code. `offset` is the place of value(0, 0) in that span; rows are
// contiguous.
// Threads: reading from several threads is safe; whoever writes `value` calls MarkChanged before the next forward pass
// and lets nobody read meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "math/bf16.h"
#include "math/matrix.h"

namespace antiphon::nn {

/// While it lives, parameters that this thread makes may hold at most `num_values` together: a description that lies
/// about its sizes is refused before it takes memory. Parameters beyond that throw InputError.
class ScopedParameterLimit {
 public:
  explicit ScopedParameterLimit(int64_t num_values);
  ScopedParameterLimit(const ScopedParameterLimit&) = delete;
  ScopedParameterLimit& operator=(const ScopedParameterLimit&) = delete;
  ~ScopedParameterLimit();

 private:
  int64_t outer_;
};

class Parameter {
 public:
  Parameter(std::string its_name, int64_t rows, int64_t cols);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  /// "weight" in the layer, "layer3.affine.weight" once in a network.
  std::string name;
  MatrixView value;
  int64_t offset = 0;

  /// Multiplies the learning rate; 0 freezes the parameter.
  float learning_rate_factor = 1.0f;
  /// Multiplies the weight decay; 0 for biases and scales.
  float decay_factor = 1.0f;
  /// Largest Frobenius norm of one step's change (before the global limit); 0: no limit, negative: as the optimiser
  /// says.
  float max_change = -1.0f;

  /// Tells that `value` was written: the bf16 copy is stale from here on.
  void MarkChanged() { shadow_valid_.store(false, std::memory_order_release); }
  /// The value rounded to bf16, refreshed if it is stale.
  ConstBf16View Bf16Value() const;
  /// For an update that refreshes the copy while the values are in cache: memory of the copy if it exists and is valid,
  /// else empty. Whoever takes it writes every element that it changes in `value`, and does not call MarkChanged.
  Bf16View MutableBf16Value();

  /// Moves the values to `memory` (rows · cols floats, outliving this) and frees the own storage.
  void MoveTo(float* memory, int64_t new_offset);

 private:
  Matrix storage_;
  mutable std::mutex shadow_mutex_;
  mutable std::atomic<bool> shadow_valid_{false};
  mutable Bf16Matrix shadow_;
};

}  // namespace antiphon::nn
