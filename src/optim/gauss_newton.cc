#include "optim/gauss_newton.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "kernels/parallel.h"

namespace antiphon::optim {
namespace {

// dz = H·dz for softmax cross-entropy averaged over weighted frames, from the logits z.
void TimesLossCurvature(ConstMatrixView z, std::span<const float> weights, MatrixView dz) {
  const double total =
      weights.empty() ? static_cast<double>(z.rows()) : std::accumulate(weights.begin(), weights.end(), 0.0);
  ParallelItems(z.rows(), z.size(), [&](int64_t n) {
    const std::span<const float> logits = z.Row(n);
    const std::span<float> d = dz.Row(n);
    const double weight = weights.empty() ? 1.0 : static_cast<double>(weights[static_cast<size_t>(n)]);
    if (weight == 0) {
      std::fill(d.begin(), d.end(), 0.0f);
      return;
    }
    const double scale = weight / total;
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
  });
}

}  // namespace

GaussNewton::GaussNewton(nn::Network& network) : network_(network) {
  const size_t i = network.FirstWithoutTangent();
  if (i == network.num_layers()) return;
  Throw<UsageError>(
      "second-order training needs to know how every layer's outputs change with its parameters, which layer '{}' of "
      "type '{}' (or one inside it) cannot tell: leave it out, or take a first-order parallel.method (ssgd, averaging, "
      "bmuf …)",
      network.layer_name(i), network.layer_type(i));
}

void GaussNewton::Product(nn::ExecContext context, ConstMatrixView x, std::span<const float> frame_weights,
                          std::span<const float> v, std::span<float> product, nn::Workspace& ws) {
  CHECK_EQ(v.size(), network_.num_values());
  CHECK_EQ(product.size(), v.size());
  std::fill(product.begin(), product.end(), 0.0f);
  if (x.rows() == 0 || network_.parameters().empty()) return;
  context.training = false;
  context.clip_in_time = false;
  const ConstMatrixView logits = network_.Forward(context, x, ws);
  CHECK(frame_weights.empty() || std::ssize(frame_weights) == logits.rows()) << frame_weights.size();
  const MatrixView derivative = network_.Tangent(context, {}, v, ws);
  TimesLossCurvature(logits, frame_weights, derivative);
  nn::DenseGradientSink sink(product);
  network_.Backward(context, derivative, ws, sink);
}

}  // namespace antiphon::optim
