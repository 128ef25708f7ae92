#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "compress/network_parts.h"
#include "nn/loss.h"
#include "optim/optimizer.h"
#include "small_model.h"

namespace antiphon::compress {
namespace {

int64_t ZerosOf(const nn::Network& network, const std::string& name) {
  int64_t zeros = 0;
  for (const LayerParts& p : TakeApart(network)) {
    if (p.name != name) continue;
    for (int64_t i = 0; i < p.weight().size(); ++i) zeros += p.weight().data()[i] == 0 ? 1 : 0;
  }
  return zeros;
}

TEST(Prune, RemovesTheSmallestWeights) {
  nn::Model model = SmallModel();
  const Matrix before = TakeApart(model.network)[5].weight();
  Apply("prune", "sparsity = 0.75", model);
  const LayerParts after = TakeApart(model.network)[5];
  float largest_gone = 0;
  float smallest_left = 1e9f;
  for (int64_t i = 0; i < before.size(); ++i) {
    const float v = std::abs(before.data()[i]);
    if (after.weight().data()[i] == 0) {
      largest_gone = std::max(largest_gone, v);
    } else {
      EXPECT_EQ(after.weight().data()[i], before.data()[i]);
      smallest_left = std::min(smallest_left, v);
    }
  }
  EXPECT_LT(largest_gone, smallest_left);
  EXPECT_EQ(ZerosOf(model.network, "affine2"), 32 * 32 * 3 / 4);
  EXPECT_EQ(ZerosOf(model.network, "affine1"), 0) << "the first layer is left out";
}

TEST(Prune, WithoutSparsityKeepsTheBits) {
  nn::Model model = SmallModel();
  const Matrix x = RandomMatrix(5, kInputs, 1);
  const Matrix before = Output(model.network, x);
  Apply("prune", "sparsity = 0.0\nfirst = true", model);
  EXPECT_EQ(LargestDifference(before, Output(model.network, x)), 0);
}

TEST(Prune, LeavesRoundedLayersRounded) {
  FixedFrames frames(kInputs);
  nn::Model model = SmallModel();
  Apply("prune", "sparsity = 0.5", model);
  Apply("quantize", "", model, &frames);
  const auto sparse = [&] {
    for (LayerParts& p : TakeApart(model.network)) {
      if (p.type == "sparse-affine") return std::move(p);
    }
    return LayerParts{};
  };
  const LayerParts before = sparse();
  for (const auto& [sparsity, gone] : {std::pair("0.0", 32 * 16), {"0.75", 32 * 24}}) {
    Apply("prune", std::string("first = true\nsparsity = ") + sparsity, model);
    const LayerParts after = sparse();
    EXPECT_EQ(after.config.Int("weight-bits"), 8) << sparsity;
    EXPECT_EQ(after.config.Int("input-bits"), 8) << sparsity;
    for (const char* name : {"input_scale", "input_zero"}) {
      EXPECT_EQ(after.tensors.at(name)(0, 0), before.tensors.at(name)(0, 0)) << name;
    }
    const Matrix& mask = after.tensors.at("mask");
    EXPECT_EQ(std::count(mask.data(), mask.data() + mask.size(), 0.0f), gone) << sparsity;
  }
}

// Whatever an optimiser does, also with momentum and decay, and whatever is averaged into the values.
TEST(Prune, ZerosStayZeroUnderEveryOptimizer) {
  const std::map<std::string, std::string> tables = {
      {"sgd", "type = 'sgd'"},
      {"sgd, momentum and decay", "type = 'sgd'\nmomentum = 0.9\nweight-decay = 0.01\ndecoupled-decay = false"},
      {"sgd, nesterov", "type = 'sgd'\nmomentum = 0.9\nnesterov = true"},
      {"sgd, max-change", "type = 'sgd'\nmax-change = 0.5\nmomentum = 0.9"},
      {"adam", "type = 'adam'\nweight-decay = 0.1"},
      {"natural-gradient", "type = 'natural-gradient'\n[step]\nmomentum = 0.9"},
  };
  for (const std::string& name : optim::OptimizerRegistry::Get().Names()) {
    EXPECT_TRUE(tables.contains(name)) << "add a line for the optimiser '" << name << "'";
  }
  for (const auto& [name, table] : tables) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      nn::Model model = SmallModel();
      Apply("prune", "block-rows = 2\nblock-cols = 4", model);
      const int64_t zeros = ZerosOf(model.network, "affine2");
      EXPECT_GT(zeros, 32 * 32 / 2);
      const auto optimizer = optim::MakeOptimizer(Config::Parse(table, "optimizer"), model.network);
      const Matrix x = RandomMatrix(16, kInputs, 21);
      std::vector<int32_t> ids(16, 3);
      nn::Workspace ws;
      for (int step = 0; step < 1000; ++step) {
        for (int32_t& id : ids) id = (id + 5) % kPdfs;
        const nn::ExecContext context{.precision = precision, .training = true, .seed = 1, .step = step};
        const MatrixView z = model.network.Forward(context, x, ws);
        nn::SoftmaxCrossEntropy(z, {.pdf_ids = ids}, z);
        optimizer->BeginStep(0.02);
        model.network.Backward(context, z, ws, *optimizer);
        optimizer->EndStep();
      }
      EXPECT_EQ(ZerosOf(model.network, "affine2"), zeros) << name;
      EXPECT_TRUE(std::isfinite(Output(model.network, x)(0, 0))) << name;
    }
  }
}

TEST(PruneNodes, RemovesANodeThatFeedsNothingWithoutATrace) {
  nn::Model model = SmallModel();
  auto parts = TakeApart(model.network);
  for (LayerParts& p : parts) {
    if (p.name != "affine2") continue;
    for (int64_t r = 0; r < 32; ++r) {
      for (const int64_t n : {3, 17, 30, 31}) p.tensors["weight"](r, n) = 0;
    }
  }
  model.network = PutTogether(parts, kInputs);
  const Matrix x = RandomMatrix(5, kInputs, 1);
  const Matrix before = Output(model.network, x);
  Apply("prune-nodes", "share = 0.0626\nscope = 'network'\nmultiple = 1", model);  // 4 of 64
  EXPECT_EQ(model.network.layer(1).out_dim(), 28);
  EXPECT_EQ(model.network.layer(5).out_dim(), 32);
  EXPECT_LT(LargestDifference(before, Output(model.network, x)), 1e-5);
}

TEST(PruneNodes, FoldsAConstantNodeIntoTheBiasesAbove) {
  for (const std::string function : {"relu", "sigmoid"}) {
    nn::Model model = SmallModel(function);
    auto parts = TakeApart(model.network);
    for (const int64_t n : {5, 9}) {
      for (float& v : parts[1].tensors["weight"].Row(n)) v = 0;
      parts[1].tensors["bias"](0, n) = 2;  // always above the threshold: no entropy
    }
    model.network = PutTogether(parts, kInputs);
    FixedFrames frames(kInputs);
    const Matrix before = Output(model.network, frames.first());
    for (const std::string importance : {"input-norm", "entropy"}) {
      nn::Model pruned = model.Clone();
      Apply("prune-nodes", "share = 0.032\nscope = 'network'\nmultiple = 1\nimportance = '" + importance + "'", pruned,
            &frames);
      EXPECT_EQ(pruned.network.layer(1).out_dim(), 30) << importance;
      EXPECT_LT(LargestDifference(before, Output(pruned.network, frames.first())), 1e-4) << function << importance;
    }
  }
}

TEST(PruneNodes, KeepsWidthsThatKernelsLike) {
  nn::Model model = SmallModel();
  Apply("prune-nodes", "share = 0.4", model);
  EXPECT_EQ(model.network.layer(1).out_dim(), 24);  // of 20, the next multiple of 8
}

}  // namespace
}  // namespace antiphon::compress
