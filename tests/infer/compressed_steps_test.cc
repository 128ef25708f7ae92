// Compressed layers in the plan against the training network's own Forward.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "base/random.h"
#include "infer/plan.h"

namespace antiphon::infer {
namespace {

nn::Network NetworkOf(const std::string& layer, const std::string& activation, int in_dim) {
  nn::Network network(Config::Parse("[[layer]]\n" + layer + "\n[[layer]]\ntype = '" + activation +
                                        "'\n[[layer]]\ntype = 'affine'\ndim = 33\n",
                                    "net.toml"),
                      in_dim, 0, 5);
  Rng rng(8);
  for (nn::Parameter* p : network.parameters()) {
    if (p->name.ends_with("bias")) {
      for (float& b : p->value.Row(0)) b = static_cast<float>(0.1 * rng.Normal());
    }
  }
  return network;
}

Matrix RandomRows(int rows, int dim) {
  Matrix x(rows, dim);
  Rng rng(6);
  for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(rng.Normal());
  return x;
}

Matrix RunSteps(const Plan& plan, ConstMatrixView x, int batch) {
  PlanMemory memory(plan, batch);
  Matrix y(x.rows(), plan.out_dim());
  for (int64_t first = 0; first < x.rows(); first += batch) {
    const int64_t count = std::min<int64_t>(batch, x.rows() - first);
    for (int64_t r = 0; r < count; ++r) std::copy_n(x.Row(first + r).data(), x.cols(), memory.input().Row(r).data());
    plan.Run(static_cast<int>(count), memory, y.view().Rows(first, count));
  }
  return y;
}

// Runs the network in both ways; `kernel` is what the first layer must have become.
void Compare(const nn::Network& network, DataType precision, const std::string& kernel, double tolerance) {
  const Matrix x = RandomRows(13, network.in_dim());
  nn::Workspace ws;
  const Matrix expected{ConstMatrixView(network.Forward({}, x, ws))};
  const Plan plan(network, {precision});
  EXPECT_EQ(plan.step(0).Info().kernel, kernel);
  const Matrix whole = RunSteps(plan, x, 13);
  for (int64_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole.data()[i], expected.data()[i], tolerance) << kernel;
  for (const int batch : {1, 2, 5, 7}) {
    const Matrix parts = RunSteps(plan, x, batch);
    EXPECT_EQ(std::memcmp(parts.data(), whole.data(), static_cast<size_t>(whole.size()) * sizeof(float)), 0) << kernel;
  }
  if (precision != DataType::kInt8 || kernel.starts_with("circulant")) return;
  for (const Isa isa : SupportedIsas()) {
    const Matrix other = RunSteps(Plan(network, {precision, isa}), x, 13);
    EXPECT_EQ(std::memcmp(other.data(), whole.data(), static_cast<size_t>(whole.size()) * sizeof(float)), 0)
        << kernel << " " << IsaName(isa);
  }
}

TEST(CompressedSteps, QuantizedLayersRunAsTheyWereTrained) {
  for (const char* activation : {"sigmoid", "relu"}) {
    const nn::Network network = NetworkOf("type = 'quantized-affine'\ndim = 70", activation, 45);
    Compare(network, DataType::kInt8, "dense int8", 0.08);
  }
}

TEST(CompressedSteps, NormalisationIsWorkedOutOnce) {
  for (const char* layer : {"type = 'normalize'", "type = 'batch-norm'\ntarget-rms = 0.7\naffine = true"}) {
    nn::Network network = NetworkOf(layer, "relu", 45);
    for (nn::Parameter* p : network.buffers()) {
      if (p->name.ends_with("statistics")) continue;
      for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] = 0.3F + 0.1F * static_cast<float>(i % 5);
      p->MarkChanged();
    }
    nn::Workspace ws;
    const Matrix x = RandomRows(40, 45);
    bool first = true;
    network.RecomputeStatistics(
        {}, [&] { return std::exchange(first, false) ? nn::NetworkInput{x} : nn::NetworkInput{}; }, ws);
    Compare(network, DataType::kFloat32, "diagonal", 2e-5);
    Compare(network, DataType::kInt8, "diagonal", 0.08);
  }
}

TEST(CompressedSteps, SparseLayersLeaveZeroBlocksOut) {
  for (const char* activation : {"sigmoid", "relu"}) {
    nn::Network network = NetworkOf("type = 'sparse-affine'\ndim = 96", activation, 64);
    nn::Parameter* weight = network.parameters()[0];
    ASSERT_TRUE(weight->name.ends_with("weight"));
    Rng rng(3);
    for (int64_t r = 0; r < weight->value.rows(); r += 16) {
      for (int64_t c = 0; c < weight->value.cols(); c += 4) {
        if (rng.Uniform() < 0.3) continue;
        for (int64_t i = 0; i < 16; ++i) std::fill_n(&weight->value(r + i, c), 4, 0.0F);
      }
    }
    // A panel without any block.
    for (int64_t r = 0; r < 64; ++r) std::fill_n(&weight->value(r, 0), 64, 0.0F);
    network.MarkChanged();
    Compare(network, DataType::kInt8, "sparse int8", 0.08);
    Compare(network, DataType::kFloat32, "dense fp32", 2e-5);
  }
}

TEST(CompressedSteps, SparseLayersWithFewZerosRunDense) {
  const nn::Network network = NetworkOf("type = 'sparse-affine'\ndim = 32", "relu", 16);
  EXPECT_EQ(Plan(network, {DataType::kInt8}).step(0).Info().kernel, "dense int8");
}

TEST(CompressedSteps, BinaryLayersMultiplySigns) {
  for (const int in_dim : {64, 67, 200}) {
    Compare(NetworkOf("type = 'binary-affine'\ndim = 70\nbinary-input = true", "relu", in_dim), DataType::kFloat32,
            "binary", 2e-4);
    Compare(NetworkOf("type = 'binary-affine'\ndim = 70", "relu", in_dim), DataType::kFloat32, "dense fp32", 2e-4);
    Compare(NetworkOf("type = 'binary-affine'\ndim = 70", "sigmoid", in_dim), DataType::kInt8, "dense int8", 0.08);
  }
}

TEST(CompressedSteps, CirculantLayersConvolveBySpectra) {
  for (const int block : {2, 4, 8, 64}) {
    for (const int dim : {block * 3, block * 17 + 1}) {
      const std::string layer = fmt::format("type = 'circulant-affine'\ndim = {}\nblock = {}", dim, block);
      const nn::Network network = NetworkOf(layer, "sigmoid", block * 5);
      Compare(network, DataType::kFloat32, fmt::format("circulant {}", block), 1e-4);
      Compare(network, DataType::kInt8, fmt::format("circulant {}", block), 0.08);
    }
  }
}

TEST(CompressedSteps, OddCirculantBlocksRunAsTheLayerDoes) {
  const nn::Network network = NetworkOf("type = 'circulant-affine'\ndim = 12\nblock = 3", "relu", 9);
  const Plan plan(network, {DataType::kFloat32});
  EXPECT_TRUE(plan.needs_network());
  Compare(network, DataType::kFloat32, "layer:circulant-affine", 2e-5);
}

}  // namespace
}  // namespace antiphon::infer
