// The output layer, only as far as the search asks for it.
//
// Frames come in blocks. The first time that a frame of the block asks for a class, the class is computed for that
// frame and all that follow in the block, because neighbouring frames ask for nearly the same ones; weights are
// gathered row by row. When more than `dense_share` of the classes are wanted, the rest of the block is computed
// densely. The logits have the same bits as those of the dense layer.
//
// What was not asked for is undefined.
// Threads: LazyOutput is shared and read-only; a LazyBlock belongs to one stream.
// Source: Vanhoucke, Senior, Mao, Improving the speed of neural networks on CPUs, 2011, section 4.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/plan.h"
#include "infer/steps/dense_step.h"
#include "kernels/gather_dot.h"

namespace antiphon::infer {

class LazyOutput {
 public:
  /// For the last layer of the plan, which must be affine in 8 bits; UsageError otherwise.
  LazyOutput(const Plan& plan, double dense_share);

  int num_classes() const { return static_cast<int>(layer_->out_dim()); }
  double dense_share() const { return dense_share_; }
  const PackedDense& weights() const { return layer_->weights(); }
  int64_t bytes() const { return static_cast<int64_t>(rows_.bytes()); }

  /// Logits of up to kGatherOutputs classes for rows first … last − 1 of `hidden`, into their rows of
  /// `scores` [classes, rows].
  void Gather(const Rows& hidden, int first, int last, std::span<const int32_t> pdf_ids, MatrixView scores) const;

 private:
  const DenseStep* layer_;
  double dense_share_;
  int64_t depth_;
  GatherDotOp::Function dot_;
  HugeBuffer rows_;  // weights, output by output
};

class LazyBlock {
 public:
  explicit LazyBlock(const LazyOutput& output) : output_(&output) {}

  /// Starts a block; `hidden` is copied.
  void Begin(const Rows& hidden);
  /// The same with some of its rows.
  void Begin(const Rows& hidden, std::span<const int> which);
  /// Computes what the row wants and lacks.
  void Request(int row, std::span<const int32_t> pdf_ids);
  float score(int row, int32_t pdf_id) const {
    return row >= dense_from_ ? dense_(row, pdf_id) : gathered_(pdf_id, row);
  }
  bool Has(int row, int32_t pdf_id) const { return known_from_[static_cast<size_t>(pdf_id)] <= row; }

  /// Logits computed, and those of a dense layer, since construction; blocks that ended count.
  int64_t computed() const { return computed_; }
  int64_t total() const { return total_; }
  size_t bytes() const {
    return memory_.size() + known_from_.size() * sizeof(int) +
           static_cast<size_t>(gathered_.size() + dense_.size()) * sizeof(float);
  }

 private:
  void Prepare(const Rows& hidden, int rows);
  void ComputeRest(int row);

  const LazyOutput* output_;
  std::vector<std::byte> memory_;
  Rows hidden_;
  Matrix gathered_;  // [classes, rows]: a class's logits lie together
  Matrix dense_;     // [rows, classes], rows from dense_from_ on
  int dense_from_ = 0;
  std::vector<int32_t> lacking_;
  std::vector<int> known_from_;  // per class, the first row that has it
  int64_t known_ = 0;            // classes known in some row
  int64_t computed_ = 0, total_ = 0;
};

}  // namespace antiphon::infer
