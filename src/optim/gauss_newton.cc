#include "optim/gauss_newton.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "math/gemm.h"

namespace antiphon::optim {
namespace {

// Layers without parameters whose derivative (out by in, over the whole minibatch) is a symmetric matrix.
constexpr std::array<std::string_view, 9> kSymmetric = {"relu",   "sigmoid", "tanh",      "softmax",   "normalize",
                                                        "renorm", "dropout", "spec-mask", "batch-norm"};

// dz = H·dz for softmax cross-entropy averaged over frames, from the logits z.
void TimesLossCurvature(ConstMatrixView z, MatrixView dz) {
  const double scale = 1.0 / static_cast<double>(std::max<int64_t>(1, z.rows()));
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < z.rows(); ++n) {
    const std::span<const float> logits = z.Row(n);
    const std::span<float> d = dz.Row(n);
    const double max = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    double mean = 0;
    for (size_t k = 0; k < logits.size(); ++k) {
      const double e = std::exp(static_cast<double>(logits[k]) - max);
      sum += e;
      mean += e * static_cast<double>(d[k]);
    }
    mean /= sum;
    for (size_t k = 0; k < logits.size(); ++k) {
      const double y = std::exp(static_cast<double>(logits[k]) - max) / sum;
      d[k] = static_cast<float>(scale * y * (static_cast<double>(d[k]) - mean));
    }
  }
}

}  // namespace

GaussNewton::GaussNewton(nn::Network& network) : network_(network) {
  while (lowest_ < network.num_layers() && network.layer(lowest_).parameters().empty()) ++lowest_;
  for (size_t i = lowest_; i < network.num_layers(); ++i) {
    const std::string& type = network.layer_type(i);
    const bool symmetric = std::find(kSymmetric.begin(), kSymmetric.end(), type) != kSymmetric.end();
    if (affine(i) || (symmetric && network.layer(i).parameters().empty())) continue;
    Throw<UsageError>("second-order training cannot differentiate layer '{}' of type '{}'; it knows affine, linear, {}",
                      network.layer_name(i), type, fmt::join(kSymmetric, ", "));
  }
}

bool GaussNewton::affine(size_t layer) const {
  return network_.layer_type(layer) == "affine" || network_.layer_type(layer) == "linear";
}

MatrixView GaussNewton::Tangent(const nn::ExecContext& context, int64_t frames, std::span<const float> v) {
  nn::NullGradientSink nothing;
  size_t turn = 0;
  MatrixView below;  // empty: zero
  for (size_t i = lowest_; i < network_.num_layers(); ++i) {
    nn::Layer& layer = network_.layer(i);
    nn::Workspace& ws = workspace_.Child(i);
    Matrix& storage = tangents_[turn];
    storage.Resize(frames, layer.out_dim());
    const MatrixView out = storage.view();
    if (affine(i)) {
      const auto parameters = layer.parameters();
      const nn::Parameter& weight = *parameters[0];
      const ConstMatrixView direction(v.data() + weight.offset, weight.value.rows(), weight.value.cols());
      GemmEpilogue bias;
      if (parameters.size() > 1) bias.bias = v.data() + parameters[1]->offset;
      Gemm(Transpose::kNo, ws.x, Transpose::kYes, direction, out, bias);
      if (below.data() != nullptr)
        Gemm(Transpose::kNo, below, Transpose::kYes, weight.value, out, {.accumulate = 1.0f});
    } else {
      layer.Backward(context, below, ws, out, nothing);
    }
    below = out;
    turn = 1 - turn;
  }
  return below;
}

void GaussNewton::Product(Precision precision, ConstMatrixView x, std::span<const float> v, std::span<float> product) {
  CHECK_EQ(v.size(), network_.num_values());
  CHECK_EQ(product.size(), v.size());
  std::fill(product.begin(), product.end(), 0.0f);
  if (x.rows() == 0 || lowest_ == network_.num_layers()) return;
  nn::ExecContext context;
  context.precision = precision;
  const MatrixView logits = network_.Forward(context, x, workspace_);
  const MatrixView derivative = Tangent(context, x.rows(), v);
  TimesLossCurvature(logits, derivative);
  nn::DenseGradientSink sink(product);
  network_.Backward(context, derivative, workspace_, sink);
}

}  // namespace antiphon::optim
