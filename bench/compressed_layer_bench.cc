// Compressed layers of 2048 × 2048 beside dense ones: binary and circulant against fp32, block-sparse against int8, one
// core. Rounding or packing of the inputs is included.
#include <fmt/core.h>

#include <algorithm>

#include "base/compute_threads.h"
#include "base/random.h"
#include "infer/measure.h"

namespace {

using namespace antiphon;

constexpr int kDim = 2048;
constexpr double kSparsity = 0.8;
constexpr int kRounds = 5;

nn::Network NetworkOf(const std::string& layer) {
  return nn::Network(Config::Parse(fmt::format("[[layer]]\n{}\ndim = {}\n", layer, kDim), "bench"), kDim, 0, 1);
}

void MakeSparse(nn::Network& network) {
  const MatrixView weight = network.parameters()[0]->value;
  Rng rng(2);
  for (int64_t r = 0; r < weight.rows(); r += 16) {
    for (int64_t c = 0; c < weight.cols(); c += 4) {
      if (rng.Uniform() >= kSparsity) continue;
      for (int64_t i = 0; i < 16; ++i) std::fill_n(&weight(r + i, c), 4, 0.0F);
    }
  }
  network.MarkChanged();
}

// Both in turn; medians of their times.
void Compare(const char* name, const infer::Plan& compressed, const infer::Plan& dense, int batch) {
  std::vector<double> ours, theirs;
  for (int i = 0; i < kRounds; ++i) {
    ours.push_back(infer::MeasurePlan(compressed, batch, 0.1).steps[0].seconds);
    theirs.push_back(infer::MeasurePlan(dense, batch, 0.1).steps[0].seconds);
  }
  std::sort(ours.begin(), ours.end());
  std::sort(theirs.begin(), theirs.end());
  const infer::StepInfo a = compressed.step(0).Info(), b = dense.step(0).Info();
  fmt::print("{:13} batch {}: {:8.1f} us, {} bytes; {} {:8.1f} us, {} bytes; {:5.1f} x\n", name, batch,
             1e6 * ours[kRounds / 2], a.weight_bytes, b.kernel, 1e6 * theirs[kRounds / 2], b.weight_bytes,
             theirs[kRounds / 2] / ours[kRounds / 2]);
}

}  // namespace

int main() {
  SetComputeThreads(1);
  const nn::Network affine = NetworkOf("type = 'affine'");
  nn::Network sparse = NetworkOf("type = 'sparse-affine'");
  MakeSparse(sparse);
  const nn::Network binary = NetworkOf("type = 'binary-affine'\nbinary-input = true");
  const nn::Network circulant = NetworkOf("type = 'circulant-affine'\nblock = 64");
  const infer::Plan fp32(affine, {DataType::kFloat32}), int8(affine, {DataType::kInt8});
  for (const int batch : {1, 8}) {
    Compare("binary", infer::Plan(binary, {DataType::kFloat32}), fp32, batch);
    Compare("circulant 64", infer::Plan(circulant, {DataType::kFloat32}), fp32, batch);
    Compare("80 % sparse", infer::Plan(sparse, {DataType::kInt8}), int8, batch);
  }
}
