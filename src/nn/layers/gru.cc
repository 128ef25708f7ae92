// Gated recurrent units:
//   r = σ(R + U_r)  z = σ(Z + U_z)  n = tanh(N + r∘U_n)  h = (1 − z)∘n + z∘h₋
//   [R Z N] = W·x + b,  [U_r U_z U_n] = V·h₋ + [0 0 b_n]
// The reset gate acts on the product with h₋, not on h₋ itself, so that the three products are one.
//
// State, truncated back-propagation, clipping and initial weights: as lstm.cc.
// Source: Cho et al., EMNLP 2014, in the form of cuDNN (and PyTorch).
#include <cmath>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/recurrent_cell.h"
#include "nn/layers/affine_base.h"
#include "nn/layers/recurrent_base.h"
#include "nn/layers/recurrent_tangents.h"

namespace antiphon::nn {
namespace {

struct GruOptions {
  int dim = 0;
  double clip = 30.0;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{0, 1 << 20}, "number of cells, which are the outputs");
    v("clip", clip, Range{0, 1e9}, "limit of derivatives that go back in time (of a loss summed over frames); 0: none");
  }
};

class Gru : public RecurrentBase, public HasTangent {
 public:
  Gru(const LayerArgs& args, const GruOptions& options)
      : RecurrentBase(args.in_dim, CheckedDim(args, options.dim)),
        options_(options),
        weight_("weight", 3 * out_dim(), in_dim()),
        bias_("bias", 1, 3 * out_dim()),
        recurrent_("recurrent", 3 * out_dim(), out_dim()),
        recurrent_bias_("recurrent_bias", 1, 3 * out_dim()) {
    bias_.decay_factor = recurrent_bias_.decay_factor = 0;
    bias_.weight = &weight_;
    recurrent_bias_.weight = &recurrent_;
    if (args.random_values) {
      const auto narrower = [&](const Parameter& p) {
        return std::sqrt(static_cast<double>(p.value.cols()) / (in_dim() + out_dim()));
      };
      DrawWeights(narrower(weight_), MixSeed(args.seed, 0), weight_.value);
      DrawWeights(narrower(recurrent_), MixSeed(args.seed, 1), recurrent_.value);
    }
    for (Parameter* p : all_) p->MarkChanged();
  }

  std::span<Parameter* const> parameters() override { return all_; }
  HasTangent* tangent() override { return this; }
  Config ToConfig() const override { return OptionsToConfig(options_); }

 protected:
  void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const override {
    const int64_t rows = x.rows(), streams = ctx.streams(), dim = out_dim();
    const bool half = ctx.precision == Precision::kBf16;
    const MatrixView gates = ws.Derivative(kGates, rows, 3 * dim);
    MultiplyByWeight(ctx, x, ws.Half(kHalfInput, half ? rows : 0, x.cols()), Transpose::kYes, weight_, gates,
                     {.bias = bias_.value.data()});
    const MatrixView product = ws.Derivative(kProduct, rows, 3 * dim);
    const MatrixView out = BeginStates(ctx, ws, kOutput, rows, dim);
    const Bf16View out16 = ws.Half(kHalfOutput, half ? rows : 0, dim);
    for (int64_t r = 0; r < rows; r += streams) {
      const MatrixView step = product.Rows(r, streams);
      MultiplyByWeight(ctx, out.Rows(r, streams), half ? out16.Rows(r, streams) : out16, Transpose::kYes, recurrent_,
                       step, {.bias = recurrent_bias_.value.data()});
      CpuKernel<GruForwardOp>()({gates.Rows(r, streams), step, out.Rows(r, streams), out.Rows(r + streams, streams)});
    }
    KeepStates(ctx, ws, kOutput, out);
    Scale(1.0f, out.Rows(streams, rows), y);
  }

  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                  GradientSink& sink) override {
    const int64_t rows = dy.rows(), dim = out_dim();
    const bool half = ctx.precision == Precision::kBf16;
    const MatrixView gates = ws.Derivative(kGates, rows, 3 * dim), product = ws.Derivative(kProduct, rows, 3 * dim);
    const Bf16View product16 = ws.HalfDerivative(kHalfProduct, half ? rows : 0, 3 * dim);
    BackThroughTime(ctx, dy, gates, product, product16, ws);
    GradientFactors factors{.x = ws.x, .g = gates, .x16 = {}, .g16 = {}, .bias_input = {}};
    if (half) {
      const Bf16View gates16 = ws.HalfDerivative(kHalfGates, rows, 3 * dim);
      ConvertToBf16(1.0f, gates, gates16);
      factors.g16 = gates16;
      factors.x16 = ws.Half(kHalfInput);
      if (dx.data() != nullptr) Gemm(Transpose::kNo, factors.g16, Transpose::kNo, weight_.Bf16Value(), dx);
    } else if (dx.data() != nullptr) {
      Gemm(Transpose::kNo, factors.g, Transpose::kNo, weight_.value, dx);
    }
    if (weight_.learning_rate_factor == 0) return;
    sink.TakeFactors(weight_, &bias_, factors);
    factors.x = ConstMatrixView(ws.Float(kOutput)).Rows(0, rows);
    factors.g = product;
    if (half) {
      factors.x16 = ws.Half(kHalfOutput);
      factors.g16 = product16;
    }
    sink.TakeFactors(recurrent_, &recurrent_bias_, factors);
  }

  void DoTangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                 MatrixView dy) override {
    const int64_t rows = dy.rows(), streams = ctx.streams(), dim = out_dim();
    const ConstMatrixView gates = ws.Derivative(kGates, rows, 3 * dim);
    const ConstMatrixView product = ws.Derivative(kProduct, rows, 3 * dim), out = ws.Float(kOutput);
    const MatrixView d_gates = ws.Float(kGateTangents, rows, 3 * dim);
    Gemm(Transpose::kNo, ws.x, Transpose::kYes, Along(direction, weight_), d_gates,
         {.bias = Along(direction, bias_).data()});
    if (dx.data() != nullptr) Gemm(Transpose::kNo, dx, Transpose::kYes, weight_.value, d_gates, {.accumulate = 1.0f});
    const MatrixView d_product = ws.Float(kProductTangents, rows, 3 * dim);
    Gemm(Transpose::kNo, out.Rows(0, rows), Transpose::kYes, Along(direction, recurrent_), d_product,
         {.bias = Along(direction, recurrent_bias_).data()});
    // Nothing changes in the states at the start.
    const MatrixView d_out = ws.Float(kOutputTangents, rows + streams, dim);
    std::fill_n(d_out.data(), d_out.Rows(0, streams).size(), 0.0f);
    for (int64_t r = 0; r < rows; r += streams) {
      const MatrixView step = d_product.Rows(r, streams);
      Gemm(Transpose::kNo, d_out.Rows(r, streams), Transpose::kYes, recurrent_.value, step, {.accumulate = 1.0f});
      GruCellTangent({gates.Rows(r, streams), product.Rows(r, streams), out.Rows(r, streams), d_gates.Rows(r, streams),
                      step, d_out.Rows(r, streams), d_out.Rows(r + streams, streams)});
    }
    Scale(1.0f, d_out.Rows(streams, rows), dy);
  }

 private:
  enum Slot { kOutput, kOutputDerivative, kGateTangents, kProductTangents, kOutputTangents };
  enum HalfSlot { kHalfInput, kHalfOutput };
  enum DerivativeSlot { kGates, kProduct };
  enum HalfDerivativeSlot { kHalfGates, kHalfProduct };

  // From the last frame to the first: derivatives of the gates' inputs and of the product take their places.
  void BackThroughTime(const ExecContext& ctx, ConstMatrixView dy, MatrixView gates, MatrixView product,
                       Bf16View product16, Workspace& ws) const {
    const int64_t rows = dy.rows(), streams = ctx.streams();
    const float limit = ClipLimit(ctx, options_.clip, rows);
    const MatrixView out = ws.Float(kOutput);
    const MatrixView d_both = ws.Float(kOutputDerivative, 2 * streams, out_dim());
    const MatrixView dh = d_both.Rows(0, streams), passed = d_both.Rows(streams, streams);
    for (int64_t r = rows - streams; r >= 0; r -= streams) {
      if (r + streams == rows) {
        Scale(1.0f, dy.Rows(r, streams), dh);
      } else {
        const int64_t after = r + streams;
        MultiplyByWeight(ctx, product.Rows(after, streams),
                         product16.rows() > 0 ? product16.Rows(after, streams) : product16, Transpose::kNo, recurrent_,
                         dh);
        AddScaled(1.0f, passed, dh);
        ClampAndAdd(limit, dy.Rows(r, streams), dh);
      }
      CpuKernel<GruBackwardOp>()({gates.Rows(r, streams), product.Rows(r, streams), out.Rows(r, streams), dh, passed});
    }
    if (product16.rows() > 0) ConvertToBf16(1.0f, product.Rows(0, streams), product16.Rows(0, streams));
  }

  GruOptions options_;
  Parameter weight_;
  Parameter bias_;
  Parameter recurrent_;
  Parameter recurrent_bias_;
  std::vector<Parameter*> all_ = {&weight_, &bias_, &recurrent_, &recurrent_bias_};
};

REGISTER_COMPONENT(LayerRegistry, "gru", [](const LayerArgs& args) {
  return std::make_unique<Gru>(args, ReadLayerOptions<GruOptions>(args));
});

}  // namespace
}  // namespace antiphon::nn
