// "binary-affine": y = mean|w of the row| · (±1 · x) + b. With `binary-input` inputs are ±1 times the frame's mean |x|
// too, and the products are exclusive-ors and popcounts of bits, whatever the plan's precision; otherwise the signs run
// as a dense layer.
#include <algorithm>
#include <cmath>

#include "infer/steps/dense_step.h"
#include "kernels/binary_tile.h"
#include "kernels/parallel.h"

namespace antiphon::infer {
namespace {

constexpr int64_t kWordBits = 64;

float MeanAbsolute(std::span<const float> row) {
  // Sixteen sums, so that the compiler may add in vectors; the order is always the same.
  double sums[16] = {};
  for (size_t i = 0; i < row.size(); ++i) sums[i % 16] += std::abs(row[i]);
  double sum = 0;
  for (const double s : sums) sum += s;
  return row.empty() ? 0.0F : static_cast<float>(sum / static_cast<double>(row.size()));
}

// Bit i of the words is set where row[i] is below zero; zero counts as +1.
void PackSigns(std::span<const float> row, uint64_t* words, int64_t stride) {
  const auto count = static_cast<int64_t>(row.size());
  for (int64_t first = 0, w = 0; first < count; first += kWordBits, ++w) {
    uint64_t word = 0;
    for (int64_t i = first; i < std::min(count, first + kWordBits); ++i) {
      word |= static_cast<uint64_t>(row[static_cast<size_t>(i)] < 0.0F) << (i - first);
    }
    words[w * stride] = word;
  }
}

class BinaryStep : public PlanStep {
 public:
  explicit BinaryStep(const StepArgs& args)
      : PlanStep(args.in_dim(), args.out_dim()),
        name_(args.network.layer_name(args.layer)),
        activation_(args.activation),
        words_((args.in_dim() + kWordBits - 1) / kWordBits),
        output_(DataType::kInt8, args.out_dim(), args.Bias(), args.options.isa),
        panels_(static_cast<size_t>(output_.num_panels() * PanelWords() * int64_t{sizeof(uint64_t)})) {
    const auto& kernel = IsaKernel<BinaryTileOp>(DataType::kInt8, args.options.isa);
    tile_ = kernel.function;
    variant_ = kernel.variant;
    const ConstMatrixView weight = args.Get("weight");
    for (int64_t o = 0; o < weight.rows(); ++o) {
      output_.scales()[static_cast<size_t>(o)] = MeanAbsolute(weight.Row(o));
      PackSigns(weight.Row(o), Panel(o / kPanelOutputs) + o % kPanelOutputs, kPanelOutputs);
    }
  }

  void OfferOutput(const OutputFormat& wanted) override { output_format_ = WritableFormat(wanted, activation_); }
  OutputFormat output_format() const override { return output_format_; }
  bool takes_factors() const override { return true; }
  int64_t scratch_bytes(int rows) const override {
    return rows * (words_ * int64_t{sizeof(uint64_t)} + int64_t{sizeof(float)} + int64_t{sizeof(int32_t)}) + 64;
  }

  void Run(const Rows& in, const Rows& out, std::byte* scratch) const override {
    auto* const bits = reinterpret_cast<uint64_t*>(scratch);
    // The frames' scales, as if they were 8-bit rows around zero.
    Rows scaled = in;
    scaled.scale = reinterpret_cast<float*>(bits + in.rows * words_);
    scaled.zero = reinterpret_cast<int32_t*>(scaled.scale + in.rows);
    for (int r = 0; r < in.rows; ++r) {
      const std::span<const float> row(in.Row<float>(r), static_cast<size_t>(in_dim()));
      scaled.scale[r] = MeanAbsolute(row);
      scaled.zero[r] = 0;
      PackSigns(row, bits + r * words_, 1);
    }
    PanelOutput::Begin(output_format_, out);
    ParallelRanges(output_.num_panels(), PanelWords() * in.rows, 1, [&](int64_t begin, int64_t end) {
      alignas(64) int32_t sums[kTileRows * kPanelOutputs];
      for (int64_t panel = begin; panel < end; ++panel) {
        for (int row = 0; row < in.rows; row += kTileRows) {
          const int count = std::min(kTileRows, in.rows - row);
          tile_({.input = bits + row * words_,
                 .input_stride = words_,
                 .rows = count,
                 .panel = Panel(panel),
                 .words = words_,
                 .depth = in_dim(),
                 .out = sums});
          output_.Store(sums, panel, row, count, scaled, activation_, output_format_, out);
        }
      }
    });
  }

  StepInfo Info() const override {
    const int64_t operations = 2 * in_dim() * out_dim();
    // One exclusive-or, popcount and addition for 64 products.
    return {name_, "binary", variant_, static_cast<int64_t>(panels_.bytes()), operations, 3 * operations / 128};
  }

 private:
  int64_t PanelWords() const { return words_ * kPanelOutputs; }
  uint64_t* Panel(int64_t p) { return reinterpret_cast<uint64_t*>(panels_.data()) + p * PanelWords(); }
  const uint64_t* Panel(int64_t p) const {
    return reinterpret_cast<const uint64_t*>(panels_.data()) + p * PanelWords();
  }

  std::string name_, variant_;
  Activation activation_;
  int64_t words_;
  PanelOutput output_;
  OutputFormat output_format_;
  BinaryTileOp::Function tile_ = nullptr;
  HugeBuffer panels_;
};

Matrix Signs(ConstMatrixView weight) {
  Matrix signs{weight};
  for (int64_t r = 0; r < weight.rows(); ++r) {
    const float scale = MeanAbsolute(weight.Row(r));
    for (float& w : signs.view().Row(r)) w = w < 0.0F ? -scale : scale;
  }
  return signs;
}

REGISTER_COMPONENT(StepRegistry, "binary-affine", [](const StepArgs& args) -> std::unique_ptr<PlanStep> {
  if (args.LayerConfig().Bool("binary-input").value_or(false)) return std::make_unique<BinaryStep>(args);
  return std::make_unique<DenseStep>(args, Signs(args.Get("weight")), args.options.precision);
});

}  // namespace
}  // namespace antiphon::infer
