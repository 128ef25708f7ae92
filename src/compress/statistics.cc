#include "compress/statistics.h"

#include <algorithm>
#include <cmath>

#include "kernels/softmax.h"
#include "nn/layers/residual.h"

namespace antiphon::compress {
namespace {

using Use = std::function<void(size_t, ConstMatrixView, ConstMatrixView)>;

// After a pass that left everything in `workspace`. Returns the number of the layer that comes next.
size_t LookAt(const nn::Network& network, Shortcuts shortcuts, nn::Workspace& workspace, size_t number,
              const Use& use) {
  for (size_t i = 0; i < network.num_layers(); ++i) {
    nn::Workspace& own = workspace.Child(i);
    if (network.begins_range(i)) use(number, own.x, own.y);
    ++number;
    const auto* const shortcut = dynamic_cast<const nn::Residual*>(&network.layer(i));
    if (shortcut == nullptr || shortcuts == Shortcuts::kWhole) continue;
    number = LookAt(shortcut->inner(), shortcuts, own.Child(0), number, use);
  }
  return number;
}

}  // namespace

void ForLayers(const nn::Network& network, Shortcuts shortcuts, InputFrames& frames, const Use& use) {
  nn::Workspace workspace;
  frames.Rewind();
  nn::ExecContext context;
  for (nn::NetworkInput input = frames.Next(); !input.x.empty(); input = frames.Next()) {
    context.sequences = input.sequences;
    network.Forward(context, input.x, workspace);
    LookAt(network, shortcuts, workspace, 0, use);
  }
}

std::vector<DoubleMatrix> SecondMoments(const nn::Network& network, const std::vector<LayerParts>& parts,
                                        InputFrames& frames, const std::vector<size_t>& layers) {
  std::vector<DoubleMatrix> sums(parts.size());
  for (const size_t i : layers) sums[i] = DoubleMatrix(parts[i].weight().cols(), parts[i].weight().cols());
  std::vector<double> counts(parts.size(), 0.0);
  ForLayers(network, Shortcuts::kOpened, frames, [&](size_t i, ConstMatrixView x, ConstMatrixView) {
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
