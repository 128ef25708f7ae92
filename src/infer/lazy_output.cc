#include "infer/lazy_output.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace antiphon::infer {
namespace {

const DenseStep* OutputLayer(const Plan& plan) {
  const auto* layer = dynamic_cast<const DenseStep*>(&plan.step(plan.num_steps() - 1));
  if (layer == nullptr || layer->weights().type() != DataType::kInt8 || layer->activation() != Activation::kNone) {
    throw UsageError("a lazy output layer needs precision int8, and an affine layer at the network's end");
  }
  return layer;
}

}  // namespace

LazyOutput::LazyOutput(const Plan& plan, double dense_share)
    : layer_(OutputLayer(plan)),
      dense_share_(dense_share),
      depth_((layer_->in_dim() + kGatherDepth - 1) / kGatherDepth * kGatherDepth),
      dot_(IsaKernel<GatherDotOp>(DataType::kInt8, plan.options().isa).function),
      rows_(static_cast<size_t>(depth_ * layer_->out_dim())) {
  for (int64_t o = 0; o < layer_->out_dim(); ++o) {
    weights().UnpackInt8(o, reinterpret_cast<int8_t*>(rows_.data() + o * depth_));
  }
}

void LazyOutput::Gather(const Rows& hidden, int first, int last, int32_t pdf_id, MatrixView scores) const {
  const auto* const weight = reinterpret_cast<const int8_t*>(rows_.data() + pdf_id * depth_);
  const auto at = static_cast<size_t>(pdf_id);
  const PanelOutput& output = weights().output();
  for (int row = first; row < last; row += kGatherRows) {
    const int count = std::min(kGatherRows, last - row);
    int32_t sums[kGatherRows];
    dot_(hidden.Row<uint8_t>(row), hidden.stride, count, weight, depth_, sums);
    for (int r = 0; r < count; ++r) {
      // The same operations in the same order as in the dense layer's epilogue.
      const auto sum = static_cast<float>(sums[r] - hidden.zero[row + r] * output.weight_sums()[at]);
      scores(row + r, pdf_id) = sum * (hidden.scale[row + r] * output.scales()[at]) + output.bias()[at];
    }
  }
}

void LazyBlock::Begin(const Rows& hidden) {
  memory_.resize(static_cast<size_t>(RowsBytes(hidden.rows, hidden.dim)) + 64);
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  hidden_ = PlaceRows(memory_.data() + ((64 - address % 64) % 64), hidden.type, hidden.rows, hidden.dim);
  std::memcpy(hidden_.data, hidden.data, static_cast<size_t>(hidden.rows * hidden.stride));
  std::copy_n(hidden.scale, hidden.rows, hidden_.scale);
  std::copy_n(hidden.zero, hidden.rows, hidden_.zero);
  scores_.Resize(hidden.rows, output_->num_classes());
  known_from_.assign(static_cast<size_t>(output_->num_classes()), hidden.rows);
  known_ = 0;
  total_ += int64_t{hidden.rows} * output_->num_classes();
}

void LazyBlock::Request(int row, std::span<const int32_t> pdf_ids) {
  int64_t lacking = 0;
  for (const int32_t pdf_id : pdf_ids) lacking += Has(row, pdf_id) ? 0 : 1;
  if (lacking == 0) return;
  const auto most = static_cast<int64_t>(output_->dense_share() * output_->num_classes());
  if (known_ + lacking > most) return ComputeRest(row);
  for (const int32_t pdf_id : pdf_ids) {
    int& from = known_from_[static_cast<size_t>(pdf_id)];
    if (from <= row) continue;
    known_ += from == hidden_.rows ? 1 : 0;
    output_->Gather(hidden_, row, from, pdf_id, scores_);
    computed_ += from - row;
    from = row;
  }
}

void LazyBlock::ComputeRest(int row) {
  Rows rest = hidden_;
  rest.rows = hidden_.rows - row;
  rest.data += row * hidden_.stride;
  rest.scale += row;
  rest.zero += row;
  Rows out;
  out.rows = rest.rows;
  out.dim = scores_.cols();
  out.stride = scores_.cols() * int64_t{sizeof(float)};
  out.data = reinterpret_cast<std::byte*>(scores_.view().Row(row).data());
  output_->weights().Run(rest, Activation::kNone, {}, out);
  computed_ += rest.rows * scores_.cols();
  std::fill(known_from_.begin(), known_from_.end(), row);
  known_ = output_->num_classes();
}

}  // namespace antiphon::infer
