#include "compress/statistics.h"

#include <algorithm>
#include <cmath>

#include "kernels/softmax.h"

namespace antiphon::compress {

void ForLayers(const nn::Network& network, InputFrames& frames,
               const std::function<void(size_t, ConstMatrixView, ConstMatrixView)>& use) {
  nn::Workspace workspace;
  frames.Rewind();
  for (ConstMatrixView x = frames.Next(); !x.empty(); x = frames.Next()) {
    network.Forward({}, x, workspace);
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
  double count = 0;
  ForLayers(network, frames, [&](size_t i, ConstMatrixView x, ConstMatrixView) {
    if (i == 0) count += static_cast<double>(x.rows());
    if (sums[i].empty()) return;
    const DoubleMatrix wide = ToDouble(x);
    GemmScaled(Transpose::kYes, wide, Transpose::kNo, wide, 1.0, 1.0, sums[i]);
  });
  for (DoubleMatrix& s : sums) {
    for (int64_t i = 0; i < s.size(); ++i) s.data()[i] /= std::max(count, 1.0);
  }
  return sums;
}

double OutputDivergence(const nn::Model& p, const nn::Model& q, InputFrames& frames) {
  nn::Workspace p_workspace, q_workspace;
  double sum = 0;
  double count = 0;
  const auto log_posteriors = [](const nn::Model& model, ConstMatrixView x, nn::Workspace& workspace) {
    const MatrixView z = model.network.Forward({}, x, workspace);
    const MatrixView heads(z.data(), z.rows() * model.frames_per_forward, model.num_pdfs());
    Softmax(true, heads, heads);
    return heads;
  };
  frames.Rewind();
  for (ConstMatrixView x = frames.Next(); !x.empty(); x = frames.Next()) {
    const MatrixView a = log_posteriors(p, x, p_workspace);
    const MatrixView b = log_posteriors(q, x, q_workspace);
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
