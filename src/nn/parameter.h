// One trainable (or stored) matrix of a layer.
//
// Values live in one block of memory per Network (network.h), so that a whole model is one contiguous span: averaging,
// exchange and checkpoints need no per-layer code. `offset` is the place of value(0, 0) in that span; rows are
// contiguous.
// Some parameters may not take every value (a sparse layer's zeros stay zero, a binary layer's values stay small): who
// changes values says so by MarkChanged, or BeginUpdate and Constrain, whatever the way they were changed, and that
// brings them back.
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
#include "math/minimal_filter.h"

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

/// What a model file keeps of a parameter's values (nn/parameter_storage.h); in memory they are always floats.
enum class Storage { kFloat, kInt8, kInt4, kSigns, kBits };

class Parameter {
 public:
  Parameter(std::string its_name, int64_t rows, int64_t cols);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  /// "weight" in the layer, "layer3.affine.weight" once in a network.
  std::string name;
  MatrixView value;
  int64_t offset = 0;

  /// The matrix that `value` is a part of if several networks hold it together (network.h): its shape, and the place of
  /// value(0, 0) in its values, row by row.
  struct Whole {
    int64_t rows = 0;
    int64_t cols = 0;
    int64_t first = 0;
    int64_t size() const { return rows * cols; }
  };
  Whole whole;

  /// Multiplies the learning rate; 0 freezes the parameter.
  float learning_rate_factor = 1.0f;
  /// Multiplies the weight decay; 0 for biases and scales.
  float decay_factor = 1.0f;
  /// Largest Frobenius norm of one step's change (before the global limit); 0: no limit, negative: as the optimiser
  /// says.
  float max_change = -1.0f;
  /// Of a bias, the weight that it belongs to: one limit is for the step of both. Null: it has one of its own.
  const Parameter* weight = nullptr;

  /// Parameter of 0 and 1, one per block of equally many rows and columns of this one: where it is 0, values are held
  /// at 0. Null: all may be any value.
  const Parameter* mask = nullptr;
  /// Values are held within ±limit; 0: no limit.
  float limit = 0;
  Storage storage = Storage::kFloat;

  /// Tells that `value` was written: it is brought within its limits, and its copies are stale from here on.
  void MarkChanged() {
    Constrain(0, value);
    bf16_.valid.store(false, std::memory_order_release);
    filtered_.valid.store(false, std::memory_order_release);
  }
  /// Brings `rows`, the values from `first_row` on, back to what mask and limit allow.
  void Constrain(int64_t first_row, MatrixView rows) const;
  /// The value rounded to bf16, refreshed if it is stale.
  ConstBf16View Bf16Value() const;
  /// The value as a filter's taps, which are blocks of columns: the factor of product number `product`
  /// (math/minimal_filter.h), [rows, cols / taps], refreshed if it is stale. The filter is always the same.
  ConstMatrixView FilteredValue(const MinimalFilter& filter, int product) const;
  /// Called before an update that refreshes the bf16 copy while the values are in cache: memory of that copy if it
  /// exists and is valid, else empty; other copies are stale from here on. Whoever takes it writes every element that
  /// it changes in `value` before anybody asks for a copy, and calls Constrain instead of MarkChanged.
  Bf16View BeginUpdate();

  /// Moves the values to `memory` (rows · cols floats, outliving this) and frees the own storage.
  void MoveTo(float* memory, int64_t new_offset);

 private:
  // The value in another form, made when it is first asked for.
  template <class M>
  struct Copy {
    std::mutex mutex;
    std::atomic<bool> valid{false};
    M values;
    template <class Body>
    auto Fresh(Body make) {
      if (!valid.load(std::memory_order_acquire)) {
        const std::lock_guard lock(mutex);
        if (!valid.load(std::memory_order_relaxed)) {
          make(values);
          valid.store(true, std::memory_order_release);
        }
      }
      return std::as_const(values).view();
    }
  };

  Matrix storage_;
  mutable Copy<Bf16Matrix> bf16_;
  mutable Copy<Matrix> filtered_;
};

}  // namespace antiphon::nn
