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

void LazyOutput::Gather(const Rows& hidden, int first, int last, std::span<const int32_t> pdf_ids,
                        MatrixView scores) const {
  const PanelOutput& output = weights().output();
  GatherDotArgs args;
  args.input_stride = hidden.stride;
  args.outputs = static_cast<int>(pdf_ids.size());
  args.depth = depth_;
  for (size_t o = 0; o < pdf_ids.size(); ++o) {
    args.weights[o] = reinterpret_cast<const int8_t*>(rows_.data() + pdf_ids[o] * depth_);
  }
  int32_t sums[kGatherOutputs * kGatherRows];
  args.out = sums;
  for (int row = first; row < last; row += kGatherRows) {
    args.rows = std::min(kGatherRows, last - row);
    args.input = hidden.Row<uint8_t>(row);
    dot_(args);
    for (size_t o = 0; o < pdf_ids.size(); ++o) {
      const auto at = static_cast<size_t>(pdf_ids[o]);
      float* const to = scores.Row(pdf_ids[o]).data() + row;
      for (int r = 0; r < args.rows; ++r) {
        // The same operations in the same order as in the dense layer's epilogue.
        const int32_t sum = sums[o * kGatherRows + static_cast<size_t>(r)];
        const auto exact = static_cast<float>(sum - hidden.zero[row + r] * output.weight_sums()[at]);
        to[r] = exact * (hidden.scale[row + r] * output.scales()[at]) + output.bias()[at];
      }
    }
  }
}

void LazyBlock::Prepare(const Rows& hidden, int rows) {
  memory_.resize(static_cast<size_t>(RowsBytes(rows, hidden.dim)) + 64);
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  hidden_ = PlaceRows(memory_.data() + ((64 - address % 64) % 64), hidden.type, rows, hidden.dim);
  gathered_.Resize(output_->num_classes(), rows);
  dense_from_ = rows;
  known_from_.assign(static_cast<size_t>(output_->num_classes()), rows);
  known_ = 0;
  total_ += int64_t{rows} * output_->num_classes();
}

void LazyBlock::Begin(const Rows& hidden) {
  Prepare(hidden, hidden.rows);
  std::memcpy(hidden_.data, hidden.data, static_cast<size_t>(hidden.rows * hidden.stride));
  std::copy_n(hidden.scale, hidden.rows, hidden_.scale);
  std::copy_n(hidden.zero, hidden.rows, hidden_.zero);
}

void LazyBlock::Begin(const Rows& hidden, std::span<const int> which) {
  Prepare(hidden, static_cast<int>(which.size()));
  for (int r = 0; r < hidden_.rows; ++r) {
    const int from = which[static_cast<size_t>(r)];
    std::memcpy(hidden_.Row<std::byte>(r), hidden.Row<std::byte>(from), static_cast<size_t>(hidden.stride));
    hidden_.scale[r] = hidden.scale[from];
    hidden_.zero[r] = hidden.zero[from];
  }
}

void LazyBlock::Request(int row, std::span<const int32_t> pdf_ids) {
  lacking_.clear();
  for (const int32_t pdf_id : pdf_ids) {
    if (!Has(row, pdf_id)) lacking_.push_back(pdf_id);
  }
  if (lacking_.empty()) return;
  const auto most = static_cast<int64_t>(output_->dense_share() * output_->num_classes());
  if (known_ + std::ssize(lacking_) > most) return ComputeRest(row);
  const std::span<const int32_t> lacking(lacking_);
  for (size_t first = 0; first < lacking.size(); first += kGatherOutputs) {
    const auto some = lacking.subspan(first, std::min<size_t>(kGatherOutputs, lacking.size() - first));
    output_->Gather(hidden_, row, hidden_.rows, some, gathered_);
    for (const int32_t pdf_id : some) {
      int& from = known_from_[static_cast<size_t>(pdf_id)];
      known_ += from == hidden_.rows ? 1 : 0;
      computed_ += hidden_.rows - row;
      from = row;
    }
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
  dense_.Resize(hidden_.rows, output_->num_classes());
  dense_from_ = row;
  out.dim = dense_.cols();
  out.stride = dense_.cols() * int64_t{sizeof(float)};
  out.data = reinterpret_cast<std::byte*>(dense_.view().Row(row).data());
  output_->weights().Run(rest, Activation::kNone, {}, out);
  computed_ += rest.rows * dense_.cols();
  std::fill(known_from_.begin(), known_from_.end(), row);
  known_ = output_->num_classes();
}

}  // namespace antiphon::infer
