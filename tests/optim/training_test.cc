#include <gtest/gtest.h>

#include "base/compute_threads.h"
#include "nn/loss.h"
#include "nn/network.h"
#include "optim/optimizer.h"
#include "random_matrix.h"

namespace antiphon::optim {
namespace {

using namespace nn;  // NOLINT(google-build-using-namespace)

Network Build(const std::string& toml, int in, int out) { return Network(Config::Parse(toml, "net.toml"), in, out, 1); }

using testing::RandomMatrix;

TEST(Optimizer, LeavesFrozenLayersAlone) {
  Network net = Build(
      "[[layer]]\ntype='affine'\ndim=6\nlearning-rate-factor=0\n[[layer]]\ntype='relu'\n[[layer]]\ntype='affine'\n", 8,
      5);
  const Network before = net.Clone();
  auto optimizer = MakeOptimizer(Config(), net);
  Workspace ws;
  optimizer->BeginStep(0.1);
  net.Backward({}, net.Forward({}, RandomMatrix(3, 8, 1), ws), ws, *optimizer);
  optimizer->EndStep();
  EXPECT_EQ(net.parameters()[0]->value(2, 3), before.parameters()[0]->value(2, 3));
  EXPECT_NE(net.parameters()[2]->value(2, 3), before.parameters()[2]->value(2, 3));
}

// 200 frames with random labels must be learned by heart.
double AccuracyAfterLearningByHeart(const std::string& optimizer_toml, double rate, Precision precision, int steps) {
  Network net = Build("[[layer]]\ntype='affine'\ndim=128\n[[layer]]\ntype='relu'\n[[layer]]\ntype='affine'\n", 20, 10);
  auto optimizer = MakeOptimizer(Config::Parse(optimizer_toml, "opt"), net);
  const Matrix x = RandomMatrix(200, 20, 5);
  Rng rng(6);
  std::vector<int32_t> targets(200);
  for (int32_t& t : targets) t = static_cast<int32_t>(rng.Below(10));
  Workspace ws;
  LossResult result;
  for (int i = 0; i < steps; ++i) {
    const ExecContext ctx{.precision = precision, .training = true};
    const MatrixView y = net.Forward(ctx, x, ws);
    result = SoftmaxCrossEntropy(y, {.pdf_ids = targets}, y);
    optimizer->BeginStep(rate);
    net.Backward(ctx, y, ws, *optimizer);
    optimizer->EndStep();
  }
  return result.frame_accuracy();
}

TEST(Training, LearnsRandomLabelsByHeart) {
  const int before = ComputeThreads();
  SetComputeThreads(1);  // quickest for so small a network
  EXPECT_GT(AccuracyAfterLearningByHeart("type='sgd'", 0.5, Precision::kFp32, 400), 0.99);
  EXPECT_GT(AccuracyAfterLearningByHeart("type='sgd'\nmomentum=0.9", 0.5, Precision::kFp32, 400), 0.99);
  EXPECT_GT(AccuracyAfterLearningByHeart("type='sgd'", 0.5, Precision::kBf16, 400), 0.99);
  EXPECT_GT(AccuracyAfterLearningByHeart("type='adam'", 0.01, Precision::kFp32, 200), 0.99);
  EXPECT_GT(AccuracyAfterLearningByHeart("type='sgd'\nmax-change=2\nlayer-max-change=0.75", 0.5, Precision::kFp32, 400),
            0.99);
  SetComputeThreads(before);
}

// The same bits whatever the number of threads, in every precision, for every optimiser.
TEST(Training, DoesNotDependOnTheNumberOfThreads) {
  const int before = ComputeThreads();
  const Matrix x = RandomMatrix(70, 40, 5);
  std::vector<int32_t> targets(70);
  for (size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<int32_t>(i * 7 % 50);
  for (const std::string& type : OptimizerRegistry::Get().Names()) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      uint64_t hashes[3];
      for (const int i : {0, 1, 2}) {
        SetComputeThreads(i + 1);
        Network net = Build(
            "layer = [{type='affine', dim=300}, {type='batch-norm'}, {type='relu'}, {type='dropout'}, {type='affine', "
            "dim=200}, {type='p-norm', dim=100}, {type='renorm'}, {type='affine'}]",
            40, 50);
        auto optimizer = MakeOptimizer(Config::Parse("type = '" + type + "'", "opt"), net);
        Workspace ws;
        for (int step = 0; step < 4; ++step) {
          const ExecContext ctx{.precision = precision, .training = true, .step = step};
          const MatrixView y = net.Forward(ctx, x, ws);
          SoftmaxCrossEntropy(y, {.pdf_ids = targets}, y);
          optimizer->BeginStep(0.01);
          net.Backward(ctx, y, ws, *optimizer);
          optimizer->EndStep();
        }
        hashes[i] = net.Hash();
      }
      EXPECT_EQ(hashes[1], hashes[0]) << type;
      EXPECT_EQ(hashes[2], hashes[0]) << type;
    }
  }
  SetComputeThreads(before);
}

}  // namespace
}  // namespace antiphon::optim
