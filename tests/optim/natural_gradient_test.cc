#include <gtest/gtest.h>

#include <functional>

#include "base/random.h"
#include "nn/loss.h"
#include "nn/network.h"
#include "optim/optimizer.h"
#include "temporary_folder.h"

namespace antiphon::optim {
namespace {

constexpr int64_t kFrames = 96;
constexpr int kIn = 24;
constexpr int kOut = 8;

nn::Network Build() {
  return {Config::Parse("[[layer]]\ntype='affine'\ndim=32\n[[layer]]\ntype='relu'\n[[layer]]\ntype='affine'\n", "net"),
          kIn, kOut, 1};
}

// Inputs of very different scale per dimension, and labels that the small ones decide.
struct Task {
  Matrix x{kFrames, kIn};
  std::vector<int32_t> targets;
  explicit Task(uint64_t seed) {
    Rng rng(seed);
    for (int64_t n = 0; n < kFrames; ++n) {
      const auto target = static_cast<int32_t>(rng.Below(kOut));
      for (int d = 0; d < kIn; ++d) x(n, d) = static_cast<float>((d < 4 ? 12.0 : 0.5) * rng.Normal());
      x(n, 8 + target) += 1.5f;
      targets.push_back(target);
    }
  }
};

double Train(nn::Network& net, Optimizer& optimizer, double rate, uint64_t first, uint64_t last,
             Precision precision = Precision::kFp32) {
  nn::Workspace ws;
  double loss = 0;
  for (uint64_t i = first; i < last; ++i) {
    const Task task(i);
    const nn::ExecContext ctx{.precision = precision, .training = true, .step = static_cast<int64_t>(i)};
    const MatrixView y = net.Forward(ctx, task.x, ws);
    const nn::LossResult result = nn::SoftmaxCrossEntropy(y, {.pdf_ids = task.targets}, y);
    loss = result.loss();
    optimizer.BeginStep(rate);
    net.Backward(ctx, y, ws, optimizer);
    optimizer.EndStep();
  }
  return loss;
}

std::unique_ptr<Optimizer> Make(const std::string& toml, nn::Network& net) {
  return MakeOptimizer(Config::Parse(toml, "optimizer"), net);
}

TEST(NaturalGradient, WithoutRankIsPlainSgdToTheBit) {
  nn::Network plain = Build();
  nn::Network natural = Build();
  auto sgd = Make("type='sgd'\nmomentum=0.5", plain);
  auto ng = Make("type='natural-gradient'\ninput-rank=0\noutput-rank=0\nstep={type='sgd', momentum=0.5}", natural);
  Train(plain, *sgd, 0.02, 0, 10);
  Train(natural, *ng, 0.02, 0, 10);
  EXPECT_EQ(plain.Hash(), natural.Hash());
}

TEST(NaturalGradient, LearnsFasterWhereInputsAreBadlyScaled) {
  nn::Network plain = Build();
  nn::Network natural = Build();
  auto sgd = Make("type='sgd'\nmax-change=1", plain);
  auto ng = Make("type='natural-gradient'\nstep={type='sgd', max-change=1}", natural);
  const double plain_loss = Train(plain, *sgd, 0.05, 0, 150);
  const double natural_loss = Train(natural, *ng, 0.05, 0, 150);
  EXPECT_LT(natural_loss, 0.8 * plain_loss);
}

TEST(NaturalGradient, TrainsInBf16) {
  nn::Network single = Build();
  nn::Network half = Build();
  auto a = Make("type='natural-gradient'\nstep={type='sgd', max-change=1}", single);
  auto b = Make("type='natural-gradient'\nstep={type='sgd', max-change=1}", half);
  const double expected = Train(single, *a, 0.05, 0, 60);
  EXPECT_NEAR(Train(half, *b, 0.05, 0, 60, Precision::kBf16), expected, 0.1 * expected);
}

void ExpectToResume(const std::string& keys, const std::function<nn::Network()>& build) {
  SCOPED_TRACE(keys);
  const std::string toml = "type='natural-gradient'\nstep={type='sgd', momentum=0.5, max-change=1}\n" + keys;
  nn::Network whole = build();
  auto uninterrupted = Make(toml, whole);
  Train(whole, *uninterrupted, 0.05, 0, 30);

  nn::Network first = build();
  auto before = Make(toml, first);
  Train(first, *before, 0.05, 0, 17);
  const testing::TemporaryFolder folder;
  const auto path = folder / "optimizer.safetensors";
  SafetensorsWriter writer;
  before->SaveState(writer, "optimizer.");
  writer.Write(path);
  nn::Network second = build();
  second.CopyFrom(first);
  auto after = Make(toml, second);
  after->LoadState(SafetensorsReader(path), "optimizer.");
  Train(second, *after, 0.05, 17, 30);
  EXPECT_EQ(second.Hash(), whole.Hash());
}

// With a side that has no rank too, because it was turned off or has one dimension.
TEST(NaturalGradient, ResumesBitIdentically) {
  for (const char* keys : {"", "input-rank=0\n", "output-rank=0\n", "input-rank=0\noutput-rank=0\n"}) {
    ExpectToResume(keys, Build);
  }
  const auto narrow = [] {
    return nn::Network(Config::Parse("layer=[{type='affine', dim=1}, {type='tanh'}, {type='affine'}]", "net"), kIn,
                       kOut, 1);
  };
  ExpectToResume("", narrow);
}

}  // namespace
}  // namespace antiphon::optim
