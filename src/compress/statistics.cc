#include "compress/statistics.h"

#include <algorithm>
#include <cmath>

#include "kernels/softmax.h"

namespace antiphon::compress {

void ForLayers(const nn::Network& network, InputFrames& frames,
               const std::function<void(size_t, ConstMatrixView, ConstMatrixView)>& use) {
  nn::Workspace workspace;
  frames.Rewind();
  nn::ExecContext context;
  for (nn::NetworkInput input = frames.Next(); !input.x.empty(); input = frames.Next()) {
    context.sequences = input.sequences;
    network.Forward(context, input.x, workspace);
    for (size_t i = 0; i < network.num_layers(); ++i) {
      if (!network.begins_range(i)) continue;
      use(i, workspace.Child(i).x, workspace.Child(i).y);
    }
  }
}

std::vector<DoubleMatrix> SecondMoments(const nn::Network& network, InputFrames& frames,
                                        const std::vector<size_t>& layers) {
  std::vector<DoubleMatrix> sums(network.num_layers());
  for (const size_t i : layers) sums[i] = DoubleMatrix(network.layer(i).in_dim(), network.layer(i).in_dim());
  std::vector<double> counts(network.num_layers(), 0.0);
  ForLayers(network, frames, [&](size_t i, ConstMatrixView x, ConstMatrixView) {
    if (sums[i].empty()) return;
    counts[i] += static_cast<double>(x.rows());
    const DoubleMatrix wide = ToDouble(x);
    GemmScaled(Transpose::kYes, wide, Transpose::kNo, wide, 1.0, 1.0, sums[i]);
  });
  for (size_t i = 0; i < sums.size(); ++i) {
    for (int64_t k = 0; k < sums[i].size(); ++k) sums[i].data()[k] /= std::max(counts[i], 1.0);
  }
  return sums;
}

double OutputDivergence(const nn::Model& p, const nn::Model& q, InputFrames& frames) {
  nn::Workspace p_workspace, q_workspace;
  double sum = 0;
  double count = 0;
  const auto log_posteriors = [](const nn::Model& model, const nn::NetworkInput& input, nn::Workspace& workspace) {
    nn::ExecContext context;
    context.sequences = input.sequences;
    const MatrixView z = model.network.Forward(context, input.x, workspace);
    const MatrixView heads(z.data(), z.rows() * model.frames_per_forward, model.num_pdfs());
    Softmax(true, heads, heads);
    return heads;
  };
  frames.Rewind();
  for (nn::NetworkInput input = frames.Next(); !input.x.empty(); input = frames.Next()) {
    const MatrixView a = log_posteriors(p, input, p_workspace);
    const MatrixView b = log_posteriors(q, input, q_workspace);
    for (int64_t r = 0; r < a.rows(); ++r) {
      for (int64_t k = 0; k < a.cols(); ++k) {
        sum += std::exp(static_cast<double>(a(r, k))) * static_cast<double>(a(r, k) - b(r, k));
      }
    }
    count += static_cast<double>(a.rows());
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace antiphon::compress
