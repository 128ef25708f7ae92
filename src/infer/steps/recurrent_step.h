// What the steps of recurrent and convolutional layers share: a matrix product on float rows in the plan's precision,
// memory that is laid out piece by piece, and the walk through the frames of several streams.
#pragma once

#include <span>
#include <vector>

#include "infer/plan_step.h"

namespace antiphon::infer {

/// Hands out consecutive pieces of a step's scratch memory.
class ScratchPieces {
 public:
  explicit ScratchPieces(std::byte* memory) : next_(memory) {}
  std::byte* Bytes(int64_t bytes) {
    std::byte* piece = next_;
    next_ += (bytes + 63) / 64 * 64;
    return piece;
  }
  Rows Floats(int rows, int64_t dim) { return PlaceRows(Bytes(RowsBytes(rows, dim)), DataType::kFloat32, rows, dim); }

 private:
  std::byte* next_;
};

/// out = activation(W·in + b) for float rows, rounded as the plan says on the way.
class RowProduct {
 public:
  /// `bias` empty: none.
  RowProduct(const StepArgs& args, ConstMatrixView weight, std::span<const float> bias,
             Activation activation = Activation::kNone);
  int64_t scratch_bytes(int rows) const { return RowsBytes(rows, weights_.in_dim()) + 64; }
  /// `scratch` has scratch_bytes(in.rows).
  void Run(const Rows& in, const Rows& out, std::byte* scratch) const;
  const PackedDense& weights() const { return weights_; }

 private:
  PackedDense weights_;
  RowConverter converter_;
  OutputFormat format_;
  Activation activation_;
};

/// Frame by frame: calls step(t, active) with the streams that have more than t rows, as places (stream, row of their
/// t-th).
struct ActiveRow {
  size_t stream;
  int row;
};
template <class Step>
void ForFrames(std::span<const int> rows, std::vector<ActiveRow>& active, Step step) {
  for (int t = 0;; ++t) {
    active.clear();
    int first = 0;
    for (size_t s = 0; s < rows.size(); ++s) {
      if (t < rows[s]) active.push_back({s, first + t});
      first += rows[s];
    }
    if (active.empty()) return;
    step(std::span<const ActiveRow>(active));
  }
}

}  // namespace antiphon::infer
