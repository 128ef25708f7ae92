#include "infer/panel_output.h"

#include <algorithm>

#include "base/check.h"

namespace antiphon::infer {

OutputFormat WritableFormat(const OutputFormat& wanted, Activation activation) {
  if (wanted.type != DataType::kInt8 || wanted.scale != 0.0F) return wanted;
  return activation == Activation::kSigmoid ? OutputFormat{DataType::kInt8, 1.0F / 255.0F, 0} : OutputFormat{};
}

PanelOutput::PanelOutput(DataType sum_type, int64_t out_dim, std::span<const float> bias, Isa isa)
    : sum_type_(sum_type), out_dim_(out_dim), epilogue_(IsaKernel<DenseEpilogueOp>(sum_type, isa).function) {
  const auto padded = static_cast<size_t>(num_panels() * kPanelOutputs);
  CHECK_LE(bias.size(), padded);
  bias_.assign(padded, 0.0F);
  std::copy(bias.begin(), bias.end(), bias_.begin());
  if (sum_type != DataType::kInt8) return;
  scales_.assign(padded, 0.0F);
  weight_sums_.assign(padded, 0);
}

void PanelOutput::Begin(const OutputFormat& format, const Rows& out) {
  if (out.type != DataType::kInt8) return;
  std::fill_n(out.scale, out.rows, format.scale);
  std::fill_n(out.zero, out.rows, format.zero);
}

void PanelOutput::Store(const void* sums, int64_t panel, int first_row, int rows, const Rows& in, Activation activation,
                        const OutputFormat& format, const Rows& out) const {
  const int64_t first = panel * kPanelOutputs;
  DenseEpilogueArgs args;
  args.sums = sums;
  args.rows = rows;
  args.cols = std::min(kPanelOutputs, out_dim_ - first);
  if (sum_type_ == DataType::kInt8) {
    args.row_scale = in.scale + first_row;
    args.row_zero = in.zero + first_row;
    args.col_scale = scales_.data() + first;
    args.col_sum = weight_sums_.data() + first;
  }
  args.bias = bias_.data() + first;
  args.activation = activation;
  if (out.factors != nullptr) args.row_factors = out.factors + first_row;
  args.first_factor = first;
  args.out_type = out.type;
  args.out = out.Row<std::byte>(first_row) + first * ValueBytes(out.type);
  args.out_stride = out.stride;
  args.out_scale = 1.0F / format.scale;
  args.out_zero = static_cast<float>(format.zero);
  epilogue_(args);
}

}  // namespace antiphon::infer
