// "circulant-affine" with an even block: transforms of the input blocks, products with spectra that were computed once,
// one transform back per output block. In fp32 whatever the plan's precision; an odd block runs as the layer does.
//
// A real transform of b values is b numbers: the real bins 0 and b/2, then the real and the imaginary parts of the
// others. For the blocks in use it is a small matrix, which the dense kernel multiplies faster than a butterfly would.
// Source: Ding et al., CirCNN, MICRO 2017.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "infer/steps/dense_step.h"
#include "infer/steps/layer_step.h"
#include "kernels/circulant_bins.h"

namespace antiphon::infer {
namespace {

// Row k of the transform: place k of the spectrum from b values.
Matrix ForwardTransform(int64_t b) {
  Matrix transform(b, b);
  const int64_t pairs = b / 2 - 1;
  for (int64_t n = 0; n < b; ++n) {
    transform(0, n) = 1;
    transform(1, n) = n % 2 == 0 ? 1.0F : -1.0F;
    for (int64_t k = 1; k <= pairs; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k * n % b) / static_cast<double>(b);
      transform(1 + k, n) = static_cast<float>(std::cos(angle));
      transform(1 + pairs + k, n) = static_cast<float>(-std::sin(angle));
    }
  }
  return transform;
}

Matrix InverseTransform(int64_t b) {
  const Matrix forward = ForwardTransform(b);
  Matrix inverse(b, b);
  for (int64_t k = 0; k < b; ++k) {
    const double scale = (k < 2 ? 1.0 : 2.0) / static_cast<double>(b);
    for (int64_t n = 0; n < b; ++n) inverse(n, k) = static_cast<float>(scale * static_cast<double>(forward(k, n)));
  }
  return inverse;
}

class CirculantStep : public PlanStep {
 public:
  CirculantStep(const StepArgs& args, int64_t block)
      : PlanStep(args.in_dim(), args.out_dim()),
        name_(args.network.layer_name(args.layer)),
        activation_(args.activation),
        block_(block),
        in_blocks_(args.in_dim() / block),
        out_blocks_((args.out_dim() + block - 1) / block),
        chunks_((out_blocks_ + kBinOutputs - 1) / kBinOutputs),
        bins_(block / 2 + 1),
        forward_(DataType::kFloat32, ForwardTransform(block), {}, args.options.isa),
        inverse_(DataType::kFloat32, InverseTransform(block), {}, args.options.isa),
        output_(DataType::kFloat32, args.out_dim(), args.Bias(), args.options.isa),
        spectra_(static_cast<size_t>(chunks_ * bins_ * BinValues() * int64_t{sizeof(float)})) {
    const auto& kernel = IsaKernel<CirculantBinOp>(DataType::kFloat32, args.options.isa);
    bin_ = kernel.function;
    variant_ = kernel.variant;
    ComputeSpectra(args.Get("weight"));
  }

  void OfferOutput(const OutputFormat& wanted) override { output_format_ = WritableFormat(wanted, activation_); }
  OutputFormat output_format() const override { return output_format_; }
  bool takes_factors() const override { return true; }

  int64_t scratch_bytes(int /*rows*/) const override {
    return (kBinFrames * SpectrumValues() + 2 * PaddedOut() + chunks_ * bins_ * kProductValues) *
           int64_t{sizeof(float)};
  }

  void Run(const Rows& in, const Rows& out, std::byte* scratch) const override {
    PanelOutput::Begin(output_format_, out);
    auto* const spectrum = reinterpret_cast<float*>(scratch);
    for (int row = 0; row < in.rows; row += kBinFrames) {
      const int frames = std::min(kBinFrames, in.rows - row);
      for (int f = 0; f < frames; ++f) {
        Transform(forward_, in.Row<float>(row + f), in_blocks_, spectrum + f * SpectrumValues());
      }
      RunFrames(in, row, frames, spectrum, out);
    }
  }

  StepInfo Info() const override {
    const int64_t transforms = 2 * (in_blocks_ + out_blocks_) * block_ * block_;
    return {name_,
            fmt::format("circulant {}", block_),
            variant_,
            static_cast<int64_t>(spectra_.bytes()),
            2 * in_dim() * out_dim(),
            transforms + 8 * bins_ * in_blocks_ * out_blocks_};
  }

 private:
  // What a bin gives for a chunk of output blocks and all frames.
  static constexpr int64_t kProductValues = int64_t{kBinFrames} * 2 * kBinOutputs;
  int64_t BinValues() const { return in_blocks_ * 2 * kBinOutputs; }
  int64_t SpectrumValues() const { return in_blocks_ * block_; }
  int64_t PaddedOut() const { return std::max(chunks_ * kBinOutputs * block_, output_.num_panels() * kPanelOutputs); }
  // Places of a bin's parts in a transformed block; no imaginary part: −1.
  int64_t RealAt(int64_t bin) const { return bin == 0 ? 0 : (bin == bins_ - 1 ? 1 : 1 + bin); }
  int64_t ImaginaryAt(int64_t bin) const { return bin == 0 || bin == bins_ - 1 ? -1 : block_ / 2 + bin; }

  void Transform(const PackedDense& transform, const float* blocks, int64_t count, float* to) const {
    Rows in;
    in.rows = static_cast<int>(count);
    in.dim = block_;
    in.stride = block_ * int64_t{sizeof(float)};
    in.data = reinterpret_cast<std::byte*>(const_cast<float*>(blocks));
    Rows out = in;
    out.data = reinterpret_cast<std::byte*>(to);
    transform.Run(in, Activation::kNone, {}, out);
  }

  void ComputeSpectra(ConstMatrixView weight) {
    auto* const spectra = reinterpret_cast<float*>(spectra_.data());
    std::vector<float> transformed(static_cast<size_t>(SpectrumValues()));
    for (int64_t i = 0; i < out_blocks_; ++i) {
      Transform(forward_, weight.Row(i).data(), in_blocks_, transformed.data());
      for (int64_t bin = 0; bin < bins_; ++bin) {
        float* to = spectra + ((i / kBinOutputs) * bins_ + bin) * BinValues() + i % kBinOutputs;
        for (int64_t j = 0; j < in_blocks_; ++j) {
          const float* block = transformed.data() + j * block_;
          to[2 * j * kBinOutputs] = block[RealAt(bin)];
          to[(2 * j + 1) * kBinOutputs] = ImaginaryAt(bin) < 0 ? 0.0F : block[ImaginaryAt(bin)];
        }
      }
    }
  }

  // Spectra of up to kBinFrames frames to their rows of `out`.
  void RunFrames(const Rows& in, int row, int frames, float* spectrum, const Rows& out) const {
    const auto* const spectra = reinterpret_cast<const float*>(spectra_.data());
    float* const products = spectrum + kBinFrames * SpectrumValues();  // one frame: [output block, block]
    float* const values = products + PaddedOut();
    // A bin's products for all frames come together, a transform's input one frame after another: keep them meanwhile.
    float* const kept = values + PaddedOut();
    for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
      for (int64_t bin = 0; bin < bins_; ++bin) {
        bin_({.spectrum = spectra + (chunk * bins_ + bin) * BinValues(),
              .in_blocks = in_blocks_,
              .in = spectrum,
              .block_stride = block_,
              .frame_stride = SpectrumValues(),
              .real_at = RealAt(bin),
              .imaginary_at = ImaginaryAt(bin),
              .frames = frames,
              .out = kept + (chunk * bins_ + bin) * kProductValues});
      }
    }
    for (int f = 0; f < frames; ++f) {
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
        for (int64_t bin = 0; bin < bins_; ++bin) {
          const float* from = kept + (chunk * bins_ + bin) * kProductValues + f * 2 * kBinOutputs;
          float* to = products + chunk * kBinOutputs * block_;
          for (int64_t o = 0; o < kBinOutputs; ++o) to[o * block_ + RealAt(bin)] = from[o];
          if (ImaginaryAt(bin) < 0) continue;
          for (int64_t o = 0; o < kBinOutputs; ++o) to[o * block_ + ImaginaryAt(bin)] = from[kBinOutputs + o];
        }
      }
      Transform(inverse_, products, out_blocks_, values);
      for (int64_t panel = 0; panel < output_.num_panels(); ++panel) {
        output_.Store(values + panel * kPanelOutputs, panel, row + f, 1, in, activation_, output_format_, out);
      }
    }
  }

  std::string name_, variant_;
  Activation activation_;
  int64_t block_, in_blocks_, out_blocks_, chunks_, bins_;
  PackedDense forward_, inverse_;
  PanelOutput output_;
  OutputFormat output_format_;
  CirculantBinOp::Function bin_ = nullptr;
  HugeBuffer spectra_;
};

REGISTER_COMPONENT(StepRegistry, "circulant-affine", [](const StepArgs& args) -> std::unique_ptr<PlanStep> {
  const int64_t block = args.LayerConfig().Int("block").value_or(0);
  if (block < 2 || block % 2 != 0 || args.in_dim() % block != 0) return std::make_unique<LayerStep>(args);
  return std::make_unique<CirculantStep>(args, block);
});

}  // namespace
}  // namespace antiphon::infer
