// Turns cepstra back into logarithms of filterbank energies: x = Dᵀ·L⁻¹·c, with D the front end's cosine transform and
// L its lifter. Exact where there are as many cepstra as filters (`ceps` = `mel-bins`).
//
// The first `cepstra` columns are turned back, further ones (a speaker's vector) stay as they are. Fixed: nothing is
// learnt. It goes before masks over filters (spec-mask), which mean nothing in cepstra, while the features that are
// stored, and that Gaussian mixtures use, stay cepstra. A network that begins with it wants them as they are:
// normalize-input = false.
// Source: Kaldi's idct-layer.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "nn/layer.h"
#include "nn/layers/largest_dim.h"

namespace antiphon::nn {
namespace {

struct InverseCosineOptions {
  int cepstra = 0;
  double lifter = 22.0;
  template <class V>
  void Visit(V& v) {
    v("cepstra", cepstra, Range{0, kLargestDim}, "columns that are cepstra, from the first on; 0: all");
    v("lifter", lifter, Range{0, 1000}, "the front end's cepstral-lifter; 0: none");
  }
};

class InverseCosine : public Layer, public HasTangent {
 public:
  InverseCosine(const LayerArgs& args, const InverseCosineOptions& options)
      : Layer(args.in_dim, args.in_dim),
        options_(options),
        cepstra_(options.cepstra > 0 ? options.cepstra : args.in_dim),
        inverse_(cepstra_, cepstra_) {
    if (cepstra_ > args.in_dim) {
      Throw<UsageError>("{}: 'inverse-cosine' has {} cepstra, but {} inputs", args.config.Where("cepstra"), cepstra_,
                        args.in_dim);
    }
    const double q = options.lifter;
    for (int c = 0; c < cepstra_; ++c) {
      const double lifter = q == 0 ? 1.0 : 1.0 + 0.5 * q * std::sin(std::numbers::pi * c / q);
      const double scale = std::sqrt((c == 0 ? 1.0 : 2.0) / cepstra_) / lifter;
      for (int f = 0; f < cepstra_; ++f) {
        inverse_(f, c) = static_cast<float>(scale * std::cos(std::numbers::pi / cepstra_ * (f + 0.5) * c));
      }
    }
  }
  Config ToConfig() const override { return OptionsToConfig(options_); }
  HasTangent* tangent() override { return this; }

 protected:
  // Always in fp32: it runs on raw features, whose dynamic range bf16 would round away.
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace&) const override {
    Turn(Transpose::kYes, x, y);
  }
  void DoBackward(const ExecContext&, ConstMatrixView dy, Workspace&, MatrixView dx, GradientSink&) override {
    if (dx.data() != nullptr) Turn(Transpose::kNo, dy, dx);
  }
  void DoTangent(const ExecContext&, ConstMatrixView dx, std::span<const float>, Workspace&, MatrixView dy) override {
    Turn(Transpose::kYes, dx, dy);
  }

 private:
  void Turn(Transpose transpose, ConstMatrixView from, MatrixView to) const {
    Gemm(Transpose::kNo, from.Cols(0, cepstra_), transpose, inverse_, to.Cols(0, cepstra_));
    if (cepstra_ < in_dim()) {
      Scale(1.0f, from.Cols(cepstra_, in_dim() - cepstra_), to.Cols(cepstra_, in_dim() - cepstra_));
    }
  }

  InverseCosineOptions options_;
  int cepstra_;
  Matrix inverse_;
};

REGISTER_COMPONENT(LayerRegistry, "inverse-cosine", [](const LayerArgs& args) {
  return std::make_unique<InverseCosine>(args, ReadLayerOptions<InverseCosineOptions>(args));
});

}  // namespace
}  // namespace antiphon::nn
