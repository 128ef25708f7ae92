// y = W·x + b, every output from every input; `linear` is the same without b.
//
// Initial weights: normal with standard deviation 1/√in (as Kaldi's nnet3) times `init-scale`; biases `bias-init`.
// `orthonormal` keeps a linear layer's rows orthogonal and of equal length α: after every fourth step,
// W −= ν·(W·Wᵀ/α² − I)·W with α² = tr(P²)/tr(P), P = W·Wᵀ. ν = ½, halved while the rows are off, and halved again while
// they are far off, by the spread of P's eigenvalues, so that it cannot overshoot.
// Source: Povey et al., Interspeech 2018; the halving: Kaldi's ConstrainOrthonormal.
// Cost: 2·N·in·out operations each for y, dx and the weight gradient; in fp32 about half of that on top of a splice
// with two or three evenly spaced offsets (nn/shifted_product.h).
#include "kernels/elementwise.h"
#include "nn/layer_traits.h"
#include "nn/layers/affine_base.h"
#include "nn/layers/largest_dim.h"
#include "nn/shifted_product.h"

namespace antiphon::nn {
namespace {

struct AffineOptions {
  int dim = 0;
  double init_scale = 1.0;
  double bias_init = 0.0;
  bool orthonormal = false;  // of linear layers, which tell it themselves
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{0, kLargestDim}, "number of outputs; 0 in the last layer: the number of senones");
    v("init-scale", init_scale, Range{0, 1000}, "multiplies the initial weights' standard deviation 1/sqrt(inputs)");
    v("bias-init", bias_init, "initial biases");
  }
};

struct LinearOptions {
  int dim = 0;
  double init_scale = 1.0;
  bool orthonormal = false;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{0, kLargestDim}, "number of outputs; 0 in the last layer: the number of senones");
    v("init-scale", init_scale, Range{0, 1000}, "multiplies the initial weights' standard deviation 1/sqrt(inputs)");
    v("orthonormal", orthonormal, "keep the rows orthogonal and of equal length; no more outputs than inputs");
  }
};

AffineOptions ReadAffine(const LayerArgs& args) {
  auto options = ReadLayerOptions<AffineOptions>(args);
  if (options.dim == 0) options.dim = args.default_out_dim;
  return options;
}

AffineOptions ReadLinear(const LayerArgs& args) {
  const auto linear = ReadLayerOptions<LinearOptions>(args);
  return {linear.dim == 0 ? args.default_out_dim : linear.dim, linear.init_scale, 0.0, linear.orthonormal};
}

int HeldOutputs(const LayerArgs& args, int dim) {
  const OutputRange& held = args.outputs;
  if (held.all()) return dim;
  CHECK(held.first >= 0 && held.count >= 0 && held.first + held.count <= dim)
      << held.first << " + " << held.count << " of " << dim;
  return held.count;
}

class Affine : public Layer, public HasTangent, public Constrained {
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
    if (options.orthonormal && options.dim > in_dim()) {
      Throw<UsageError>("{}: {} rows of {} values cannot be orthogonal", args.config.Where("orthonormal"), options.dim,
                        in_dim());
    }
    weight_.MarkChanged();
    all_.push_back(&weight_);
    if (!has_bias) return;
    for (float& b : bias_.value.Row(0)) b = static_cast<float>(options.bias_init);
    bias_.decay_factor = 0;
    bias_.weight = &weight_;
    all_.push_back(&bias_);
  }

  std::span<Parameter* const> parameters() override { return all_; }
  LayerProperties properties() const override { return {.whole_out_dim = options_.dim}; }
  HasTangent* tangent() override { return this; }
  Constrained* constraint() override {
    const bool frozen = weight_.learning_rate_factor == 0;
    return options_.orthonormal && !frozen ? this : nullptr;
  }

  Config ToConfig() const override {
    if (all_.size() == 2) return OptionsToConfig(options_);
    return OptionsToConfig(LinearOptions{options_.dim, options_.init_scale, options_.orthonormal});
  }

  Activation* absorbed_activation() override { return &activation_; }
  ShiftedBlocks* input_blocks() override { return &input_blocks_; }

  // A layer that several ranks hold together is left as it is: none has all rows.
  void AfterSteps(int64_t first, int64_t count) override {
    constexpr int64_t kEvery = 4;
    const int64_t due = (first + kEvery - 1) / kEvery * kEvery;
    if (due < first + count && out_dim() == options_.dim) MakeMoreOrthonormal();
  }

 protected:
  void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const override {
    const GemmEpilogue epilogue{.bias = all_.size() == 2 ? bias_.value.data() : nullptr, .activation = activation_};
    if (const auto way = Shifted(ctx, x)) return way->Forward(x, weight_, epilogue, ws.Child(0), y);
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
    const auto way = Shifted(ctx, ws.x);
    ShiftedFactors shifted;
    if (way) {
      shifted = way->Backward(dy, weight_, ws.Child(0), dx);
      factors.shifted = &shifted;
    } else if (ctx.precision == Precision::kBf16) {
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

  // An absorbed activation's part stays with its own layer.
  void DoTangent(const ExecContext&, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                 MatrixView dy) override {
    GemmEpilogue bias;
    if (all_.size() == 2) bias.bias = Along(direction, bias_).data();
    Gemm(Transpose::kNo, ws.x, Transpose::kYes, Along(direction, weight_), dy, bias);
    if (dx.data() != nullptr) Gemm(Transpose::kNo, dx, Transpose::kYes, weight_.value, dy, {.accumulate = 1.0f});
  }

 private:
  static constexpr double kOff = 1.02;
  static constexpr double kFarOff = 1.1;

  enum Slot { kInput };
  enum DerivativeSlot { kDerivative };

  std::optional<ShiftedProduct> Shifted(const ExecContext& ctx, ConstMatrixView x) const {
    if (ctx.precision != Precision::kFp32) return std::nullopt;
    return ShiftedProduct::For(input_blocks_, ctx.streams(), x, whole_out_dim());
  }

  void MakeMoreOrthonormal() {
    const MatrixView w = weight_.value;
    Matrix p(w.rows(), w.rows());
    Gemm(Transpose::kNo, w, Transpose::kYes, w, p);
    double trace = 0, square = 0;
    for (int64_t r = 0; r < p.rows(); ++r) {
      trace += static_cast<double>(p(r, r));
      for (const float v : p.Row(r)) square += static_cast<double>(v) * static_cast<double>(v);
    }
    if (trace == 0) return;
    const double length = square / trace;  // α²
    // Mean square of P's eigenvalues over their squared mean: 1 where the rows are as they should be.
    const double spread = square * static_cast<double>(p.rows()) / (trace * trace);
    double speed = 0.5;
    if (spread > kOff) speed *= 0.5;
    if (spread > kFarOff) speed *= 0.5;
    for (int64_t r = 0; r < p.rows(); ++r) p(r, r) -= static_cast<float>(length);
    Scale(static_cast<float>(-speed / length), p, p);
    const Matrix old{ConstMatrixView(w)};
    Gemm(Transpose::kNo, p, Transpose::kNo, old, w, {.accumulate = 1.0f});
    weight_.MarkChanged();
  }

  AffineOptions options_;
  Activation activation_ = Activation::kNone;
  ShiftedBlocks input_blocks_;
  Parameter weight_;
  Parameter bias_;
  std::vector<Parameter*> all_;
};

REGISTER_COMPONENT(LayerRegistry, "affine",
                   [](const LayerArgs& args) { return std::make_unique<Affine>(args, ReadAffine(args), true); });
REGISTER_COMPONENT(LayerRegistry, "linear",
                   [](const LayerArgs& args) { return std::make_unique<Affine>(args, ReadLinear(args), false); });
REGISTER_COMPONENT(
    LayerTraitsRegistry, "affine",
    Traits({.product = LayerTraits::Product::kPlain, .profile = LayerTraits::ProfilePart::kMatrix, .divisible = true}));
REGISTER_COMPONENT(LayerTraitsRegistry, "linear", Traits({.product = LayerTraits::Product::kPlain, .divisible = true}));

}  // namespace
}  // namespace antiphon::nn
