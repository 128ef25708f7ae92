// Transforms that are set from data and not trained: `fixed-affine` y = W·x + b (an LDA, a decorrelation), and
// `normalize` y = s∘(x + b) per dimension (mean and variance normalisation of the network's input).
//
// Both start as the identity; whoever has the statistics writes the values through Layer::buffers(): "weight" [out, in]
// and "bias" [1, out], or "offset" [1, dim] and "scale" [1, dim].
#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/parallel.h"
#include "nn/layer.h"
#include "nn/layer_traits.h"
#include "nn/layers/largest_dim.h"

namespace antiphon::nn {
namespace {

struct FixedAffineOptions {
  int dim = 0;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{0, kLargestDim}, "number of outputs; 0: as many as inputs");
  }
};

struct NormalizeOptions {
  template <class V>
  void Visit(V&) {}
};

class FixedAffine : public Layer, public HasTangent {
 public:
  FixedAffine(const LayerArgs& args, const FixedAffineOptions& options)
      : Layer(args.in_dim, options.dim > 0 ? options.dim : args.in_dim),
        weight_("weight", out_dim(), in_dim()),
        bias_("bias", 1, out_dim()) {
    for (int i = 0; i < std::min(in_dim(), out_dim()); ++i) weight_.value(i, i) = 1;
  }
  Config ToConfig() const override { return OptionsToConfig(FixedAffineOptions{out_dim()}); }
  std::span<Parameter* const> buffers() override { return stored_; }
  HasTangent* tangent() override { return this; }

 protected:
  // Always in fp32: it runs on raw features, whose dynamic range bf16 would round away.
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace&) const override {
    Gemm(Transpose::kNo, x, Transpose::kYes, weight_.value, y, {.bias = bias_.value.data()});
  }
  void DoBackward(const ExecContext&, ConstMatrixView dy, Workspace&, MatrixView dx, GradientSink&) override {
    if (dx.data() != nullptr) Gemm(Transpose::kNo, dy, Transpose::kNo, weight_.value, dx);
  }
  void DoTangent(const ExecContext&, ConstMatrixView dx, std::span<const float>, Workspace&, MatrixView dy) override {
    Gemm(Transpose::kNo, dx, Transpose::kYes, weight_.value, dy);
  }

 private:
  Parameter weight_;
  Parameter bias_;
  std::vector<Parameter*> stored_ = {&weight_, &bias_};
};

class Normalize : public Layer {
 public:
  explicit Normalize(const LayerArgs& args)
      : Layer(args.in_dim, args.in_dim), offset_("offset", 1, args.in_dim), scale_("scale", 1, args.in_dim) {
    ReadLayerOptions<NormalizeOptions>(args);
    for (float& s : scale_.value.Row(0)) s = 1;
  }
  Config ToConfig() const override { return Config(); }
  std::span<Parameter* const> buffers() override { return stored_; }
  LayerProperties properties() const override { return {.in_place = true, .symmetric = true}; }

 protected:
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace&) const override {
    const float* offset = offset_.value.data();
    const float* scale = scale_.value.data();
    ParallelItems(x.rows(), x.size(), [&](int64_t r) {
      const float* in = x.Row(r).data();
      float* out = y.Row(r).data();
      for (int64_t c = 0; c < x.cols(); ++c) out[c] = scale[c] * (in[c] + offset[c]);
    });
  }
  void DoBackward(const ExecContext&, ConstMatrixView dy, Workspace&, MatrixView dx, GradientSink&) override {
    for (int64_t r = 0; r < dx.rows(); ++r) {
      for (int64_t c = 0; c < dx.cols(); ++c) dx(r, c) = scale_.value(0, c) * dy(r, c);
    }
  }

 private:
  Parameter offset_;
  Parameter scale_;
  std::vector<Parameter*> stored_ = {&offset_, &scale_};
};

REGISTER_COMPONENT(LayerRegistry, "fixed-affine", [](const LayerArgs& args) {
  return std::make_unique<FixedAffine>(args, ReadLayerOptions<FixedAffineOptions>(args));
});
REGISTER_COMPONENT(LayerRegistry, "normalize", [](const LayerArgs& args) { return std::make_unique<Normalize>(args); });
REGISTER_COMPONENT(LayerTraitsRegistry, "fixed-affine", Traits({.product = LayerTraits::Product::kFixed}));
REGISTER_COMPONENT(LayerTraitsRegistry, "normalize", Traits({.input_scaling = true, .units_apart = true}));

}  // namespace
}  // namespace antiphon::nn
