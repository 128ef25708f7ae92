// y = W·x + b, every output from every input; `linear` is the same without b.
//
// Initial weights: normal with standard deviation 1/√in (as Kaldi's nnet3) times `init-scale`; biases `bias-init`.
// Cost: 2·N·in·out operations each for y, dx and the weight gradient.
#include "kernels/elementwise.h"
#include "nn/layers/affine_base.h"

namespace antiphon::nn {
namespace {

struct AffineOptions {
  int dim = 0;
  double init_scale = 1.0;
  double bias_init = 0.0;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{0, 1 << 24}, "number of outputs; 0 in the last layer: the number of senones");
    v("init-scale", init_scale, Range{0, 1000}, "multiplies the initial weights' standard deviation 1/sqrt(inputs)");
    v("bias-init", bias_init, "initial biases");
  }
};

struct LinearOptions {
  int dim = 0;
  double init_scale = 1.0;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{0, 1 << 24}, "number of outputs; 0 in the last layer: the number of senones");
    v("init-scale", init_scale, Range{0, 1000}, "multiplies the initial weights' standard deviation 1/sqrt(inputs)");
  }
};

AffineOptions ReadAffine(const LayerArgs& args) {
  auto options = ReadLayerOptions<AffineOptions>(args);
  if (options.dim == 0) options.dim = args.default_out_dim;
  return options;
}

AffineOptions ReadLinear(const LayerArgs& args) {
  const auto linear = ReadLayerOptions<LinearOptions>(args);
  return {linear.dim == 0 ? args.default_out_dim : linear.dim, linear.init_scale, 0.0};
}

int HeldOutputs(const LayerArgs& args, int dim) {
  const OutputRange& held = args.outputs;
  if (held.all()) return dim;
  CHECK(held.first >= 0 && held.count >= 0 && held.first + held.count <= dim)
      << held.first << " + " << held.count << " of " << dim;
  return held.count;
}

class Affine : public Layer {
 public:
  Affine(const LayerArgs& args, const AffineOptions& options, bool has_bias)
      : Layer(args.in_dim, HeldOutputs(args, CheckedDim(args, options.dim))),
        options_(options),
        weight_("weight", out_dim(), in_dim()),
        bias_("bias", 1, has_bias ? out_dim() : 0) {
    const int64_t first = args.outputs.first;
    weight_.whole = {options.dim, in_dim(), first * in_dim()};
    bias_.whole = {1, has_bias ? options.dim : 0, first};
    if (args.random_values) DrawWeights(options.init_scale, args.seed, weight_.value, first);
    weight_.MarkChanged();
    all_.push_back(&weight_);
    if (!has_bias) return;
    for (float& b : bias_.value.Row(0)) b = static_cast<float>(options.bias_init);
    bias_.decay_factor = 0;
    all_.push_back(&bias_);
  }

  std::span<Parameter* const> parameters() override { return all_; }
  int whole_out_dim() const override { return options_.dim; }

  Config ToConfig() const override {
    if (all_.size() == 2) return OptionsToConfig(options_);
    return OptionsToConfig(LinearOptions{options_.dim, options_.init_scale});
  }

  bool AbsorbActivation(Activation activation) override {
    activation_ = activation;
    return true;
  }

 protected:
  void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const override {
    const GemmEpilogue epilogue{.bias = all_.size() == 2 ? bias_.value.data() : nullptr, .activation = activation_};
    if (ctx.precision == Precision::kFp32) {
      Gemm(Transpose::kNo, x, Transpose::kYes, weight_.value, y, epilogue);
      return;
    }
    const Bf16View x16 = ws.Half(kInput, x.rows(), x.cols());
    ConvertToBf16(1.0f, x, x16);
    Gemm(Transpose::kNo, x16, Transpose::kYes, weight_.Bf16Value(), y, epilogue);
  }

  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                  GradientSink& sink) override {
    GradientFactors factors{.x = ws.x, .g = dy, .x16 = {}, .g16 = {}, .bias_input = {}};
    if (ctx.precision == Precision::kBf16) {
      const Bf16View g16 = ws.HalfDerivative(kDerivative, dy.rows(), dy.cols());
      ConvertToBf16(1.0f, dy, g16);
      factors.g16 = g16;
      factors.x16 = ws.Half(kInput);
      if (dx.data() != nullptr) Gemm(Transpose::kNo, factors.g16, Transpose::kNo, weight_.Bf16Value(), dx);
    } else if (dx.data() != nullptr) {
      Gemm(Transpose::kNo, dy, Transpose::kNo, weight_.value, dx);
    }
    if (weight_.learning_rate_factor == 0) return;
    sink.TakeFactors(weight_, all_.size() == 2 ? &bias_ : nullptr, factors);
  }

 private:
  enum Slot { kInput };
  enum DerivativeSlot { kDerivative };

  AffineOptions options_;
  Activation activation_ = Activation::kNone;
  Parameter weight_;
  Parameter bias_;
  std::vector<Parameter*> all_;
};

REGISTER_COMPONENT(LayerRegistry, "affine",
                   [](const LayerArgs& args) { return std::make_unique<Affine>(args, ReadAffine(args), true); });
REGISTER_COMPONENT(LayerRegistry, "linear",
                   [](const LayerArgs& args) { return std::make_unique<Affine>(args, ReadLinear(args), false); });

}  // namespace
}  // namespace antiphon::nn
