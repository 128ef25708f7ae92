// One affine transform for every frame of a spliced window: y_k = A·x_k + b for each block x_k of `dim` inputs.
//
// Starts as the identity. A linear input network for one speaker, or feature-space MLLR inside a network: since all
// frames share A, transforming each frame before it is spliced does the same.
// Source: Neto et al., Speaker-adaptation for hybrid HMM-ANN continuous speech recognition, Eurospeech 1995.
#include "base/error.h"
#include "nn/layer.h"
#include "nn/layer_traits.h"
#include "nn/layers/largest_dim.h"

namespace antiphon::nn {
namespace {

struct FrameAffineOptions {
  int dim = 0;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{1, kLargestDim}, "values of a frame; must divide the number of inputs");
  }
};

class FrameAffine : public Layer, public HasTangent {
 public:
  FrameAffine(const LayerArgs& args, const FrameAffineOptions& options)
      : Layer(args.in_dim, args.in_dim),
        options_(options),
        weight_("weight", options.dim, options.dim),
        bias_("bias", 1, options.dim) {
    if (options.dim <= 0 || args.in_dim % options.dim != 0) {
      Throw<UsageError>("{}: 'frame-affine' needs a `dim` that divides its {} inputs, found {}",
                        args.config.Where("dim"), args.in_dim, options.dim);
    }
    for (int i = 0; i < options.dim; ++i) weight_.value(i, i) = 1;
    weight_.MarkChanged();
    weight_.decay_factor = bias_.decay_factor = 0;
    bias_.weight = &weight_;
  }
  Config ToConfig() const override { return OptionsToConfig(options_); }
  std::span<Parameter* const> parameters() override { return all_; }
  HasTangent* tangent() override { return this; }

 protected:
  // Always in fp32: it runs on raw features, whose dynamic range bf16 would round away.
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace& ws) const override {
    const MatrixView out = y.contiguous() ? Frames(y) : ws.Float(kOutput, Rows(y), options_.dim);
    Gemm(Transpose::kNo, Frames(Contiguous(x, ws, kInput)), Transpose::kYes, weight_.value, out,
         {.bias = bias_.value.data()});
    if (!y.contiguous()) CopyRows(ConstMatrixView(out.data(), y.rows(), y.cols()), y);
  }

  void DoBackward(const ExecContext&, ConstMatrixView dy, Workspace& ws, MatrixView dx, GradientSink& sink) override {
    const ConstMatrixView g = Frames(Contiguous(dy, ws, kDerivative));
    if (dx.data() != nullptr) {
      const MatrixView out = dx.contiguous() ? Frames(dx) : ws.Float(kOutput, Rows(dx), options_.dim);
      Gemm(Transpose::kNo, g, Transpose::kNo, weight_.value, out);
      if (!dx.contiguous()) CopyRows(ConstMatrixView(out.data(), dx.rows(), dx.cols()), dx);
    }
    if (weight_.learning_rate_factor == 0) return;
    GradientFactors factors;
    factors.x = Frames(Contiguous(ws.x, ws, kInput));
    factors.g = g;
    sink.TakeFactors(weight_, &bias_, factors);
  }

  void DoTangent(const ExecContext&, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                 MatrixView dy) override {
    const MatrixView out = dy.contiguous() ? Frames(dy) : ws.Float(kOutput, Rows(dy), options_.dim);
    Gemm(Transpose::kNo, Frames(Contiguous(ws.x, ws, kInput)), Transpose::kYes, Along(direction, weight_), out,
         {.bias = Along(direction, bias_).data()});
    if (dx.data() != nullptr) {
      Gemm(Transpose::kNo, Frames(Contiguous(dx, ws, kDerivative)), Transpose::kYes, weight_.value, out,
           {.accumulate = 1.0f});
    }
    if (!dy.contiguous()) CopyRows(ConstMatrixView(out.data(), dy.rows(), dy.cols()), dy);
  }

 private:
  enum Slot { kInput, kDerivative, kOutput };

  int64_t Rows(ConstMatrixView m) const { return m.rows() * m.cols() / options_.dim; }
  // The frames of all windows one below the other.
  template <class View>
  View Frames(View m) const {
    return View(m.data(), Rows(m), options_.dim);
  }
  static void CopyRows(ConstMatrixView from, MatrixView to) {
    for (int64_t n = 0; n < from.rows(); ++n) std::copy_n(from.Row(n).data(), from.cols(), to.Row(n).data());
  }
  static ConstMatrixView Contiguous(ConstMatrixView m, Workspace& ws, Slot slot) {
    if (m.contiguous()) return m;
    const MatrixView copy = ws.Float(slot, m.rows(), m.cols());
    CopyRows(m, copy);
    return copy;
  }

  FrameAffineOptions options_;
  Parameter weight_;
  Parameter bias_;
  std::vector<Parameter*> all_ = {&weight_, &bias_};
};

REGISTER_COMPONENT(LayerRegistry, "frame-affine", [](const LayerArgs& args) {
  return std::make_unique<FrameAffine>(args, ReadLayerOptions<FrameAffineOptions>(args));
});
REGISTER_COMPONENT(LayerTraitsRegistry, "frame-affine",
                   Traits({.product = LayerTraits::Product::kPerFrame, .profile = LayerTraits::ProfilePart::kMatrix}));

}  // namespace
}  // namespace antiphon::nn
