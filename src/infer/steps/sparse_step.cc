// "sparse-affine" in 8 bits: blocks of 16 outputs × 4 inputs that are wholly zero are left out (kernels/sparse_tile.h).
// In other precisions, and where less than a third of the blocks is zero, it runs dense.
#include <algorithm>

#include "infer/steps/dense_step.h"
#include "kernels/parallel.h"
#include "kernels/sparse_tile.h"

namespace antiphon::infer {
namespace {

constexpr double kLeastSparsity = 1.0 / 3;

bool IsZeroBlock(ConstMatrixView weight, int64_t row, int64_t col) {
  for (int64_t r = row; r < std::min(row + kBlockOutputs, weight.rows()); ++r) {
    for (int64_t c = col; c < std::min(col + kBlockInputs, weight.cols()); ++c) {
      if (weight(r, c) != 0.0F) return false;
    }
  }
  return true;
}

int64_t CountBlocks(ConstMatrixView weight) {
  int64_t count = 0;
  for (int64_t r = 0; r < weight.rows(); r += kBlockOutputs) {
    for (int64_t c = 0; c < weight.cols(); c += kBlockInputs) count += IsZeroBlock(weight, r, c) ? 0 : 1;
  }
  return count;
}

double SparsityOf(ConstMatrixView weight) {
  const int64_t all =
      ((weight.rows() + kBlockOutputs - 1) / kBlockOutputs) * ((weight.cols() + kBlockInputs - 1) / kBlockInputs);
  return all > 0 ? 1.0 - static_cast<double>(CountBlocks(weight)) / static_cast<double>(all) : 0.0;
}

class SparseStep : public PlanStep {
 public:
  explicit SparseStep(const StepArgs& args)
      : PlanStep(args.in_dim(), args.out_dim()),
        name_(args.network.layer_name(args.layer)),
        activation_(args.activation),
        input_format_(args.InputFormat(DataType::kInt8)),
        output_(DataType::kInt8, args.out_dim(), args.Bias(), args.options.isa) {
    const auto& kernel = IsaKernel<SparseTileOp>(DataType::kInt8, args.options.isa);
    tile_ = kernel.function;
    variant_ = kernel.variant;
    Pack(args.Get("weight"));
  }

  OutputFormat input_format() const override { return input_format_; }
  void OfferOutput(const OutputFormat& wanted) override { output_format_ = WritableFormat(wanted, activation_); }
  OutputFormat output_format() const override { return output_format_; }
  bool takes_factors() const override { return true; }

  void Run(const Rows& in, const Rows& out, std::byte*) const override {
    PanelOutput::Begin(output_format_, out);
    const int tiles = (in.rows + kTileRows - 1) / kTileRows;
    const int64_t work = std::ssize(columns_) * kBlockBytes * in.rows / std::max<int64_t>(output_.num_panels(), 1);
    ParallelRanges(output_.num_panels(), work, 1, [&](int64_t begin, int64_t end) {
      alignas(64) int32_t sums[kTileRows * kPanelOutputs];
      for (int64_t panel = begin; panel < end; ++panel) {
        for (int t = 0; t < tiles; ++t) {
          const int row = in.rows * t / tiles;
          const int count = in.rows * (t + 1) / tiles - row;
          RunPanel(in, row, count, panel, sums);
          output_.Store(sums, panel, row, count, in, activation_, output_format_, out);
        }
      }
    });
  }

  StepInfo Info() const override {
    const int64_t bytes = std::ssize(columns_) * (kBlockBytes + int64_t{sizeof(uint16_t)});
    return {name_, "sparse int8", variant_, bytes, 2 * in_dim() * out_dim(), 2 * std::ssize(columns_) * kBlockBytes};
  }

 private:
  static constexpr int64_t kPanelBlocks = kPanelOutputs / kBlockOutputs;

  void Pack(ConstMatrixView weight) {
    if (weight.cols() > kBlockInputs * 65536) {
      Throw<UsageError>("layer '{}' has {} inputs; sparse ones may have {}", name_, weight.cols(),
                        kBlockInputs * 65536);
    }
    blocks_ = HugeBuffer(static_cast<size_t>(CountBlocks(weight) * kBlockBytes));
    for (int64_t r = 0; r < output_.num_panels() * kPanelOutputs; r += kBlockOutputs) {
      for (int64_t o = r; o < std::min(r + kBlockOutputs, weight.rows()); ++o) {
        output_.scales()[static_cast<size_t>(o)] = nn::RowScale(weight.Row(o), 8);
      }
      begin_.push_back(std::ssize(columns_));
      if (r >= weight.rows()) continue;
      for (int64_t c = 0; c < weight.cols(); c += kBlockInputs) {
        if (!IsZeroBlock(weight, r, c)) AddBlock(weight, r, c);
      }
    }
    begin_.push_back(std::ssize(columns_));
  }

  void AddBlock(ConstMatrixView weight, int64_t row, int64_t col) {
    auto* const block = reinterpret_cast<int8_t*>(blocks_.data()) + std::ssize(columns_) * kBlockBytes;
    columns_.push_back(static_cast<uint16_t>(col / kBlockInputs));
    for (int64_t r = row; r < std::min(row + kBlockOutputs, weight.rows()); ++r) {
      for (int64_t c = col; c < std::min(col + kBlockInputs, weight.cols()); ++c) {
        const int8_t q = nn::ToInteger(weight(r, c), output_.scales()[static_cast<size_t>(r)]);
        block[(r - row) * kBlockInputs + c - col] = q;
        output_.weight_sums()[static_cast<size_t>(r)] += q;
      }
    }
  }

  void RunPanel(const Rows& in, int row, int count, int64_t panel, int32_t* sums) const {
    for (int64_t b = 0; b < kPanelBlocks; ++b) {
      const auto at = static_cast<size_t>(panel * kPanelBlocks + b);
      tile_({.input = in.Row<uint8_t>(row),
             .input_stride = in.stride,
             .rows = count,
             .blocks = reinterpret_cast<const int8_t*>(blocks_.data()) + begin_[at] * kBlockBytes,
             .columns = columns_.data() + begin_[at],
             .num_blocks = begin_[at + 1] - begin_[at],
             .out = sums + b * kBlockOutputs,
             .out_stride = kPanelOutputs});
    }
  }

  std::string name_, variant_;
  Activation activation_;
  OutputFormat input_format_, output_format_;
  PanelOutput output_;
  SparseTileOp::Function tile_ = nullptr;
  HugeBuffer blocks_;
  std::vector<uint16_t> columns_;
  std::vector<int64_t> begin_;  // per 16 outputs, into columns_
};

REGISTER_COMPONENT(StepRegistry, "sparse-affine", [](const StepArgs& args) -> std::unique_ptr<PlanStep> {
  if (args.options.precision == DataType::kInt8 && SparsityOf(args.Get("weight")) >= kLeastSparsity) {
    return std::make_unique<SparseStep>(args);
  }
  return std::make_unique<DenseStep>(args);
});

}  // namespace
}  // namespace antiphon::infer
