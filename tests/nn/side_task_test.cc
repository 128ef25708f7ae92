// Side heads and gradient reversal against what they are to do: part 1.25 and 1.26 of the algorithms reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "finite_differences.h"
#include "nn/network.h"
#include "nn/side_targets.h"

namespace antiphon::nn {
namespace {

constexpr int kInputs = 6;
constexpr int kFrames = 20;

Matrix Noise(int64_t rows, int64_t cols, uint64_t seed) {
  Rng rng(seed);
  Matrix m(rows, cols);
  for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(rng.Normal());
  return m;
}

Network MakeNetwork(const std::string& side) {
  return Network(
      Config::Parse("layer = [{type = 'affine', dim = 5}, {type = 'tanh'}," + side + "{type = 'affine', dim = 4}]",
                    "net"),
      kInputs, 4, 3);
}

std::vector<int32_t> Labels(int classes, uint64_t seed) {
  Rng rng(seed);
  std::vector<int32_t> labels(kFrames);
  for (int32_t& l : labels) l = static_cast<int32_t>(rng.Below(static_cast<uint64_t>(classes)));
  return labels;
}

// Gradient of the whole network, with the senones' loss or without, as laid out in it.
std::vector<float> Gradient(Network& network, bool senones, SideTargets* side, double progress = 1) {
  const Matrix x = Noise(kFrames, kInputs, 1);
  const std::vector<int32_t> ids = Labels(4, 2);
  Workspace ws;
  const ExecContext ctx{.training = true, .progress = progress, .side_targets = side};
  const MatrixView z = network.Forward(ctx, x, ws);
  SoftmaxCrossEntropy(z, {.pdf_ids = ids}, z);
  if (!senones) std::fill_n(z.data(), z.size(), 0.0f);
  std::vector<float> gradient(network.num_values());
  DenseGradientSink sink(gradient);
  network.Backward(ctx, z, ws, sink);
  return gradient;
}

std::span<const float> Of(const Network& network, const std::vector<float>& gradient, const std::string& name) {
  for (const Parameter* p : network.parameters()) {
    if (p->name != name) continue;
    return std::span(gradient).subspan(static_cast<size_t>(p->offset), static_cast<size_t>(p->value.size()));
  }
  ADD_FAILURE() << "no parameter " << name;
  return {};
}

const char kSide[] = "{type = 'side-task', name = 'side', task = 'speaker', classes = 3, hidden-dim = 4, weight = ";

TEST(GradientReversal, IsTheIdentityUpwardsAndMinusLambdaDownwards) {
  const Config config = Config::Parse("type = 'gradient-reversal'\nmost = 0.7\n", "layer");
  const auto layer = LayerRegistry::Get().Create("gradient-reversal", LayerArgs{kInputs, config});
  const Matrix x = Noise(3, kInputs, 1);
  const Matrix dy = Noise(3, kInputs, 2);
  for (const double p : {0.0, 0.3, 1.0}) {
    Workspace ws;
    NullGradientSink sink;
    Matrix y(3, kInputs), dx(3, kInputs);
    const ExecContext ctx{.training = true, .progress = p};
    layer->Forward(ctx, x, y, ws);
    layer->Backward(ctx, dy, ws, dx, sink);
    EXPECT_EQ(std::memcmp(y.data(), x.data(), sizeof(float) * static_cast<size_t>(x.size())), 0);
    const auto lambda = static_cast<float>(0.7 * (2 / (1 + std::exp(-10 * p)) - 1));
    for (int64_t i = 0; i < dx.size(); ++i) EXPECT_FLOAT_EQ(dx.data()[i], -lambda * dy.data()[i]);
  }
}

TEST(SideTask, AddsItsGradientToThatOfTheSenones) {
  Network network = MakeNetwork(std::string(kSide) + "0.4},");
  SideTargets side{{{"speaker", Labels(3, 5)}}};
  const std::vector<float> both = Gradient(network, true, &side);
  const std::vector<float> senones = Gradient(network, true, nullptr);
  const std::vector<float> alone = Gradient(network, false, &side);
  for (size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(both[i], senones[i] + alone[i], 1e-6);
  EXPECT_GT(side.tasks[0].seen.loss(), 0);
  EXPECT_EQ(side.tasks[0].seen.weight_sum, kFrames);
}

TEST(SideTask, WithWeightNothingLeavesTheOtherGradientsAsTheyAre) {
  Network network = MakeNetwork(std::string(kSide) + "0.0},");
  SideTargets side{{{"speaker", Labels(3, 5)}}};
  const std::vector<float> with = Gradient(network, true, &side);
  const std::vector<float> without = Gradient(network, true, nullptr);
  for (size_t i = 0; i < with.size(); ++i) EXPECT_EQ(with[i], without[i]);
}

TEST(SideTask, ReversesWhatTheLayersBelowLearnAndNothingElse) {
  Network plain = MakeNetwork(std::string(kSide) + "0.4},");
  Network adversarial = MakeNetwork(std::string(kSide) + "0.4, adversarial = true, most = 0.5, gamma = 0.0},");
  SideTargets side{{{"speaker", Labels(3, 5)}}};
  const std::vector<float> a = Gradient(plain, false, &side);
  const std::vector<float> b = Gradient(adversarial, false, &side);
  for (const char* own : {"side.affine1.weight", "side.affine2.bias"}) {
    const auto x = Of(plain, a, own), y = Of(adversarial, b, own);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_FLOAT_EQ(x[i], y[i]) << own;
  }
  const auto x = Of(plain, a, "affine1.weight"), y = Of(adversarial, b, "affine1.weight");
  double size = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], -0.5f * x[i], 1e-6);
    size += std::abs(static_cast<double>(x[i]));
  }
  EXPECT_GT(size, 1e-3);
}

const char kBranch[] =
    "{type = 'side-task', name = 'side', task = 'cross-entropy', weight = 0.4, layers = [{type = 'affine', dim = 3}, "
    "{type = 'tanh'}, {type = 'affine', learning-rate-factor = 5.0}]},";

SideTargets SharesOf(const std::vector<std::vector<ClassShares::Share>>& outputs) {
  SideTarget target{.task = "cross-entropy", .labels = {}};
  target.shares.begin = {0};
  for (const auto& shares : outputs) {
    target.shares.shares.insert(target.shares.shares.end(), shares.begin(), shares.end());
    target.shares.begin.push_back(target.shares.shares.size());
  }
  return {{target}};
}

TEST(SideTask, ABranchOfItsOwnHasAsManyClassesAsTheNetworkOutputsAndIsSaidAgain) {
  const Network network = MakeNetwork(kBranch);
  const Network again = network.Clone();
  EXPECT_EQ(again.ToToml(), network.ToToml());
  const auto parameters = again.parameters();
  const auto last = std::find_if(parameters.begin(), parameters.end(),
                                 [](const Parameter* p) { return p->name == "side.affine2.weight"; });
  ASSERT_NE(last, parameters.end());
  EXPECT_EQ((*last)->value.rows(), 4);
  EXPECT_EQ((*last)->learning_rate_factor, 5.0f);
  EXPECT_THROW(MakeNetwork("{type = 'side-task', task = 'x', layers = [{type = 'tdnn', dim = 4}]},"), UsageError);
  EXPECT_THROW(MakeNetwork("{type = 'side-task', task = 'x', hidden-dim = 3, layers = [{type = 'affine'}]},"),
               UsageError);
}

// Shares that are one class each are labels.
TEST(SideTask, LearnsSharesOfClasses) {
  Network network = MakeNetwork(kBranch);
  const std::vector<int32_t> ids = Labels(4, 5);
  std::vector<std::vector<ClassShares::Share>> outputs;
  for (const int32_t id : ids) outputs.push_back({{id, 0.25f}, {id, 0.75f}});
  SideTargets labels{{{"cross-entropy", ids}}}, shares = SharesOf(outputs);
  const std::vector<float> a = Gradient(network, true, &labels), b = Gradient(network, true, &shares);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
  EXPECT_NEAR(labels.tasks[0].seen.loss(), shares.tasks[0].seen.loss(), 1e-6);
  EXPECT_NEAR(labels.tasks[0].seen.frame_accuracy(), shares.tasks[0].seen.frame_accuracy(), 1e-6);
}

// Its derivative against differences of its loss, through shares that do not add up to 1, and outputs that have none.
TEST(SideTask, DerivativeOfSharesIsThatOfTheirLoss) {
  Network network = MakeNetwork(kBranch);
  std::vector<std::vector<ClassShares::Share>> outputs(kFrames);
  Rng rng(3);
  for (size_t n = 1; n < outputs.size(); ++n) {
    for (int i = 0; i < 3; ++i) {
      outputs[n].push_back({static_cast<int32_t>(rng.Below(4)), static_cast<float>(rng.Uniform())});
    }
  }
  SideTargets shares = SharesOf(outputs);
  shares.tasks[0].total_weight = 7.0;
  const std::vector<float> gradient = Gradient(network, false, &shares);
  const auto loss = [&] {
    Gradient(network, false, &shares);
    return 0.4 * shares.tasks[0].seen.loss_sum / 7.0;
  };
  int moved = 0;
  testing::ForDifferences(network, 3, 1e-2f, loss, [&](const Parameter& p, int64_t i, double expected) {
    EXPECT_NEAR(gradient[static_cast<size_t>(p.offset + i)], expected, 1e-4) << p.name << " " << i;
    moved += std::abs(expected) > 1e-3 ? 1 : 0;
  });
  EXPECT_GT(moved, 10);
}

// With a stride above, an output's shares are of the one frame that it stands for.
TEST(SideTask, SharesBelongToTheFrameThatAnOutputStandsFor) {
  Network network(Config::Parse(std::string("layer = [{type = 'affine', dim = 5},") + kBranch +
                                    "{type = 'tdnn', dim = 4, offsets = [-1, 1], stride = 3}]",
                                "net"),
                  kInputs, 4, 3);
  const SequenceLayout layout{.streams = 2, .frames = 2};  // 8 frames each
  std::vector<std::vector<ClassShares::Share>> outputs(4);
  outputs[2] = {{1, 1.0f}};  // output 1 of stream 0: its frame 4
  SideTargets shares = SharesOf(outputs);
  const auto run = [&](int64_t changed) {
    Matrix x = Noise(16, kInputs, 1);
    if (changed >= 0) x(changed, 0) += 1;
    Workspace ws;
    ExecContext ctx{.training = true, .side_targets = &shares};
    ctx.sequences = &layout;
    const MatrixView z = network.Forward(ctx, x, ws);
    EXPECT_EQ(z.rows(), 4);
    NullGradientSink sink;
    network.Backward(ctx, z, ws, sink);
    return shares.tasks[0].seen.loss_sum;
  };
  const double loss = run(-1);
  EXPECT_GT(loss, 0);
  for (int64_t row = 0; row < 16; ++row) EXPECT_EQ(run(row) != loss, row == 8) << row;
}

TEST(SideTask, ANegativeLambdaIsAnOrdinaryTask) {
  Network plain = MakeNetwork(std::string(kSide) + "0.4},");
  Network negative = MakeNetwork(std::string(kSide) + "0.4, adversarial = true, most = -1.0, gamma = 0.0},");
  SideTargets side{{{"speaker", Labels(3, 5)}}};
  const std::vector<float> a = Gradient(plain, true, &side);
  const std::vector<float> b = Gradient(negative, true, &side);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_FLOAT_EQ(a[i], b[i]);
}

TEST(SideTask, FramesWithoutALabelCountNeitherInTheLossNorInWhatItIsDividedBy) {
  Network network = MakeNetwork(std::string(kSide) + "0.4},");
  SideTargets all{{{"speaker", Labels(3, 5)}}};
  SideTargets some = all;
  for (int n = 0; n < kFrames; n += 2) some.tasks[0].labels[static_cast<size_t>(n)] = SideTargets::kUnknown;
  const std::vector<float> a = Gradient(network, false, &some);
  EXPECT_EQ(some.tasks[0].seen.weight_sum, kFrames / 2);
  // The mean over the labelled frames: what they alone would give.
  SideTargets others = all;
  for (int n = 1; n < kFrames; n += 2) others.tasks[0].labels[static_cast<size_t>(n)] = SideTargets::kUnknown;
  const std::vector<float> b = Gradient(network, false, &others);
  const std::vector<float> mean = Gradient(network, false, &all);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(mean[i], (a[i] + b[i]) / 2, 1e-6);
}

// Above the head two layers look at frames around and skip every other one: an output stands for two rows there.
TEST(SideTask, InSequencesALabelIsThatOfTheRowsForWhichItsOutputStands) {
  const std::string above =
      "{type = 'splice', offsets = [-2, 1]}, {type = 'affine', dim = 5}, {type = 'splice', offsets = [0, 1], stride = "
      "2},";
  Network network = MakeNetwork(std::string(kSide) + "0.4}," + above);
  constexpr int kStreams = 3, kOutputs = 4;
  const TimeContext needed = network.time_context();
  ASSERT_EQ(needed, (TimeContext{2, 2, 2}));
  const std::vector<int32_t> lengths = {4, 2, 0};
  const SequenceLayout layout{.streams = kStreams, .frames = kOutputs, .lengths = lengths};
  const Matrix x = Noise(needed.InputFrames(kOutputs) * kStreams, kInputs, 1);
  SideTargets side{{{"speaker", {}}}};
  for (int o = 0; o < kOutputs; ++o) {
    for (int s = 0; s < kStreams; ++s) {
      side.tasks[0].labels.push_back(o < lengths[static_cast<size_t>(s)] ? s : SideTargets::kUnknown);
    }
  }
  const auto gradient_in_x = [&](SideTargets* targets, Network& of, const Matrix& input, const SequenceLayout* shape) {
    Workspace ws;
    ExecContext ctx{.training = true, .side_targets = targets};
    ctx.sequences = shape;
    const MatrixView z = of.Forward(ctx, input, ws);
    std::fill_n(z.data(), z.size(), 0.0f);
    NullGradientSink sink;
    return Matrix(ConstMatrixView(of.Backward(ctx, z, ws, sink, /*want_dx=*/true)));
  };
  const Matrix dx = gradient_in_x(&side, network, x, &layout);
  EXPECT_EQ(side.tasks[0].seen.weight_sum, 2 * (4 + 2));
  // The same rows as single frames of a network without what is above, with the labels that they should have.
  Network frames = MakeNetwork(std::string(kSide) + "0.4},");
  SideTargets expected{{{"speaker", std::vector<int32_t>(static_cast<size_t>(x.rows()), SideTargets::kUnknown)}}};
  for (int o = 0; o < kOutputs; ++o) {
    for (int s = 0; s < kStreams; ++s) {
      if (o >= lengths[static_cast<size_t>(s)]) continue;
      for (const int t : {2 + 2 * o, 2 + 2 * o + 1}) {
        expected.tasks[0].labels[static_cast<size_t>(t * kStreams + s)] = s;
      }
    }
  }
  const Matrix wanted = gradient_in_x(&expected, frames, x, nullptr);
  double size = 0;
  for (int64_t i = 0; i < dx.size(); ++i) {
    EXPECT_FLOAT_EQ(dx.data()[i], wanted.data()[i]) << i;
    size += std::abs(static_cast<double>(dx.data()[i]));
  }
  EXPECT_GT(size, 1e-3);
}

TEST(SideTask, AFrameCountsAsItsWeightSays) {
  Network network = MakeNetwork(std::string(kSide) + "0.4},");
  SideTargets weighed{{{"speaker", Labels(3, 5)}}};
  weighed.tasks[0].weights.assign(kFrames, 1);
  SideTargets some = weighed;
  for (size_t n = 0; n < kFrames; n += 2) {
    weighed.tasks[0].weights[n] = 0;
    some.tasks[0].labels[n] = SideTargets::kUnknown;
  }
  const std::vector<float> a = Gradient(network, false, &weighed);
  EXPECT_EQ(weighed.tasks[0].seen.weight_sum, kFrames / 2);
  EXPECT_EQ(a, Gradient(network, false, &some));
}

TEST(SideTask, IsNothingWhenScoring) {
  Network with = MakeNetwork(std::string(kSide) + "0.4},");
  const Matrix x = Noise(kFrames, kInputs, 1);
  Workspace a, b;
  SideTargets side{{{"speaker", Labels(3, 5)}}};
  const Matrix y(ConstMatrixView(with.Forward({}, x, a)));
  const MatrixView z = with.Forward({.training = true, .side_targets = &side}, x, b);
  EXPECT_EQ(std::memcmp(y.data(), z.data(), sizeof(float) * static_cast<size_t>(y.size())), 0);
}

TEST(SideTask, RefusesLabelsThatItsClassesDoNotHave) {
  Network network = MakeNetwork(std::string(kSide) + "0.4},");
  SideTargets side{{{"speaker", std::vector<int32_t>(kFrames, 3)}}};
  EXPECT_THROW(Gradient(network, true, &side), InputError);
}

TEST(BatchNorm, FrozenUsesAndKeepsItsStatisticsInTraining) {
  Network network(
      Config::Parse("layer = [{type = 'batch-norm', learning-rate-factor = 0.0}, {type = 'affine', dim = 3}]", "net"),
      kInputs, 3, 1);
  Parameter& sums = *network.buffers()[0];
  for (int c = 0; c < kInputs; ++c) {
    sums.value(0, c) = 10;
    sums.value(1, c) = static_cast<float>(c);
    sums.value(2, c) = 20;
  }
  const Matrix before(sums.value);
  const Matrix x = Noise(kFrames, kInputs, 1);
  Workspace a, b;
  const Matrix scored(ConstMatrixView(network.Forward({}, x, a)));
  const MatrixView trained = network.Forward({.training = true}, x, b);
  EXPECT_EQ(std::memcmp(scored.data(), trained.data(), sizeof(float) * static_cast<size_t>(scored.size())), 0);
  NullGradientSink sink;
  network.Backward({.training = true}, trained, b, sink, true);
  EXPECT_FALSE(network.has_statistics());
  for (int64_t i = 0; i < before.size(); ++i) EXPECT_EQ(sums.value.data()[i], before.data()[i]);
}

}  // namespace
}  // namespace antiphon::nn
