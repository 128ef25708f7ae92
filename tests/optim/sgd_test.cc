#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nn/loss.h"
#include "nn/network.h"
#include "optim/optimizer.h"
#include "temporary_folder.h"

namespace antiphon::optim {
namespace {

using nn::Network;

constexpr char kNetwork[] =
    "layer = [{type='affine', dim=70}, {type='sigmoid'}, {type='affine', dim=90}, {type='relu'}, {type='affine'}]\n";

Network MakeNetwork() { return Network(Config::Parse(kNetwork, "net.toml"), 33, 21, 1); }

std::unique_ptr<Optimizer> Make(const std::string& toml, Network& network) {
  return MakeOptimizer(Config::Parse(toml, "optimizer"), network);
}

struct Batch {
  Batch() : x(50, 33), targets(50) {
    Rng rng(3);
    for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(rng.Normal());
    for (int32_t& t : targets) t = static_cast<int32_t>(rng.Below(21));
  }
  Matrix x;
  std::vector<int32_t> targets;
};

// Gradient of the batch's loss, laid out as the network's values.
std::vector<float> Gradient(Network& network, Precision precision = Precision::kFp32) {
  const Batch batch;
  nn::Workspace ws;
  std::vector<float> gradient(network.num_values());
  nn::DenseGradientSink sink(gradient);
  const nn::ExecContext ctx{.precision = precision};
  const MatrixView y = network.Forward(ctx, batch.x, ws);
  nn::SoftmaxCrossEntropy(y, {.pdf_ids = batch.targets}, y);
  network.Backward(ctx, y, ws, sink);
  return gradient;
}

StepReport Step(Network& network, Optimizer& optimizer, double rate, Precision precision = Precision::kFp32) {
  const Batch batch;
  nn::Workspace ws;
  const nn::ExecContext ctx{.precision = precision};
  const MatrixView y = network.Forward(ctx, batch.x, ws);
  nn::SoftmaxCrossEntropy(y, {.pdf_ids = batch.targets}, y);
  optimizer.BeginStep(rate);
  network.Backward(ctx, y, ws, optimizer);
  return optimizer.EndStep();
}

double Distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(sum);
}

std::vector<float> Values(const Network& network) { return {network.values().begin(), network.values().end()}; }

void ExpectClose(std::span<const float> a, std::span<const float> b, double tolerance) {
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

TEST(Sgd, FusedStepEqualsTheUnfusedOne) {
  for (const std::string extra : {"", "weight-decay = 0.1\n"}) {
    Network fused = MakeNetwork();
    Network dense = MakeNetwork();
    auto fused_optimizer = Make(extra, fused);
    auto dense_optimizer = Make(extra, dense);
    for (int i = 0; i < 3; ++i) {
      Step(fused, *fused_optimizer, 0.3);
      const std::vector<float> gradient = Gradient(dense);
      dense_optimizer->BeginStep(0.3);
      dense_optimizer->TakeAll(dense, gradient);
      dense_optimizer->EndStep();
    }
    ExpectClose(fused.values(), dense.values(), 1e-6);
    EXPECT_GT(Distance(fused.values(), MakeNetwork().values()), 0.05);
  }
}

// The gradient of the lower layers must be taken with the weights before the step: a sink that shows the wrong order.
TEST(Sgd, DerivativesAreTakenBeforeTheWeightsChange) {
  Network network = MakeNetwork();
  const std::vector<float> gradient = Gradient(network);
  const std::vector<float> before = Values(network);
  auto optimizer = Make("", network);
  Step(network, *optimizer, 50.0);  // a rate at which a changed weight would show everywhere
  std::vector<float> expected(before);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] -= 50.0f * gradient[i];
  ExpectClose(network.values(), expected, 1e-4);
}

TEST(Sgd, FollowsItsDefinitionWithMomentum) {
  for (const std::string kind :
       {"", "classical-momentum = true\n", "nesterov = true\n", "weight-decay = 0.1\n",
        "weight-decay = 0.1\ndecoupled-decay = false\n", "weight-decay = 0.1\ndecay-biases = true\n",
        "weight-decay = 0.1\ndecay-biases = true\ndecoupled-decay = false\n",
        "max-change = 1000\nweight-decay = 0.1\ndecoupled-decay = false\nnesterov = true\n"}) {
    Network network = MakeNetwork();
    auto optimizer = Make("momentum = 0.7\n" + kind, network);
    const bool classical = kind.starts_with("classical");
    const bool nesterov = kind.find("nesterov") != std::string::npos;
    const bool coupled = kind.find("decoupled-decay = false") != std::string::npos;
    const double decay = kind.find("weight-decay") != std::string::npos ? 0.1 : 0;
    Network model = MakeNetwork();
    std::vector<double> velocity(model.num_values());
    const double rate = 0.3;
    for (int step = 0; step < 3; ++step) {
      Step(network, *optimizer, rate);
      const std::vector<float> gradient = Gradient(model);
      for (const nn::Parameter* p : model.parameters()) {
        for (int64_t k = 0; k < p->value.size(); ++k) {
          const auto i = static_cast<size_t>(p->offset + k);
          double w = static_cast<double>(p->value.data()[k]);
          const bool as_weight = p->weight != nullptr && kind.find("decay-biases") != std::string::npos;
          const double lambda = decay * static_cast<double>((as_weight ? p->weight : p)->decay_factor);
          const double g = static_cast<double>(gradient[i]) + (coupled ? lambda * w : 0);
          velocity[i] = 0.7 * velocity[i] + g;
          const double direction = nesterov ? g + 0.7 * velocity[i] : velocity[i];
          if (!coupled) w *= 1 - rate * lambda;
          p->value.data()[k] = static_cast<float>(w - rate * (classical ? 1 : 0.3) * direction);
        }
      }
    }
    ExpectClose(network.values(), model.values(), 2e-6);
  }
}

TEST(Sgd, BiasesDecayOnlyIfAsked) {
  for (const bool asked : {false, true}) {
    Network network = MakeNetwork();
    auto optimizer = Make(
        "weight-decay = 0.5\ndecoupled-decay = false\n" + std::string(asked ? "decay-biases = true" : ""), network);
    Network model = MakeNetwork();
    for (Network* net : {&network, &model}) {
      for (nn::Parameter* p : net->parameters()) {
        std::fill_n(p->value.data(), p->value.size(), 0.1F);
        p->MarkChanged();
      }
    }
    const std::vector<float> gradient = Gradient(model);
    Step(network, *optimizer, 0.2);
    for (const nn::Parameter* p : network.parameters()) {
      const bool is_bias = p->weight != nullptr;
      const auto i = static_cast<size_t>(p->offset);
      EXPECT_NEAR(p->value(0, 0), (asked || !is_bias ? 0.09F : 0.1F) - 0.2F * gradient[i], 1e-6) << p->name;
    }
  }
}

TEST(Sgd, MaxChangeBoundsTheStepAndKeepsItsDirection) {
  Network network = MakeNetwork();
  const std::vector<float> before = Values(network);
  auto optimizer = Make("max-change = 0.5\nlayer-max-change = 0.4\n", network);
  const StepReport report = Step(network, *optimizer, 100.0);
  EXPECT_NEAR(Distance(network.values(), before), 0.5, 1e-4);
  EXPECT_NEAR(report.change_norm, 0.5, 1e-4);
  EXPECT_LT(report.max_change_scale, 1);
  for (size_t i = 0; i < network.parameters().size(); i += 2) {
    const nn::Parameter* w = network.parameters()[i];
    const nn::Parameter* b = network.parameters()[i + 1];
    const auto first = static_cast<size_t>(w->offset);
    const size_t count = static_cast<size_t>(b->offset + b->value.size()) - first;
    EXPECT_LE(Distance(network.values().subspan(first, count), std::span(before).subspan(first, count)), 0.4 + 1e-5);
  }
}

// As several workers hand over their sum, parameter by parameter.
TEST(Sgd, LimitsALayersStepHoweverItsGradientComes) {
  for (const std::string momentum : {"", "momentum = 0.5\n"}) {
    Network factors = MakeNetwork();
    Network sum = MakeNetwork();
    auto factors_optimizer = Make("layer-max-change = 0.1\n" + momentum, factors);
    auto sum_optimizer = Make("layer-max-change = 0.1\n" + momentum, sum);
    for (int i = 0; i < 3; ++i) {
      const StepReport report = Step(factors, *factors_optimizer, 3);
      EXPECT_LT(report.max_change_scale, 1);
      const std::vector<float> gradient = Gradient(sum);
      sum_optimizer->BeginStep(3);
      sum_optimizer->TakeAll(sum, gradient);
      EXPECT_NEAR(sum_optimizer->EndStep().change_norm, report.change_norm, 1e-5);
    }
    ExpectClose(factors.values(), sum.values(), 2e-6);
  }
}

// Layers that hand over their gradients whole.
TEST(Sgd, LimitsWeightAndBiasTogetherInEveryLayer) {
  for (const std::string layer : {"{type='convolution', channels=3, filters=4}",
                                  "{type='circulant-affine', dim=66, block=3}", "{type='quantized-affine', dim=20}"}) {
    SCOPED_TRACE(layer);
    Network network(Config::Parse("layer = [" + layer + ", {type='sigmoid'}, {type='affine'}]", "net"), 33, 21, 1);
    const std::vector<float> before = Values(network);
    auto optimizer = Make("layer-max-change = 0.4\n", network);
    Step(network, *optimizer, 1000.0);
    const auto top = static_cast<size_t>(network.parameters()[2]->offset);
    EXPECT_NEAR(Distance(network.values().first(top), std::span(before).first(top)), 0.4, 1e-4);
  }
}

TEST(Sgd, MaxChangeThatIsNotReachedChangesNothing) {
  Network limited = MakeNetwork();
  Network free = MakeNetwork();
  auto limited_optimizer = Make("max-change = 1000\n", limited);
  auto free_optimizer = Make("", free);
  EXPECT_EQ(Step(limited, *limited_optimizer, 0.3).max_change_scale, 1);
  Step(free, *free_optimizer, 0.3);
  ExpectClose(limited.values(), free.values(), 1e-6);
}

TEST(Sgd, SkipsAStepThatIsNotFinite) {
  Network network = MakeNetwork();
  const uint64_t before = network.Hash();
  auto optimizer = Make("max-change = 2\n", network);
  std::vector<float> gradient(network.num_values());
  gradient[5] = NAN;
  optimizer->BeginStep(0.1);
  optimizer->TakeAll(network, gradient);
  EXPECT_EQ(optimizer->EndStep().max_change_scale, 0);
  EXPECT_EQ(network.Hash(), before);
}

TEST(Optimizers, StepInBf16FollowsFp32) {
  for (const std::string& type : OptimizerRegistry::Get().Names()) {
    Network a = MakeNetwork();
    Network b = MakeNetwork();
    auto oa = Make("type = \"" + type + "\"\n", a);
    auto ob = Make("type = \"" + type + "\"\n", b);
    const std::vector<float> before = Values(a);
    const double rate = type == "adam" ? 1e-3 : 0.3;
    Step(a, *oa, rate);
    Step(b, *ob, rate, Precision::kBf16);
    const double moved = Distance(a.values(), before);
    EXPECT_GT(moved, 1e-3) << type;
    // Adam normalises every single value, so that values near zero turn about.
    EXPECT_LT(Distance(a.values(), b.values()), (type == "adam" ? 0.5 : 0.06) * moved) << type;
  }
}

// The bf16 copy of the weights must follow every step, or the next pass would use old ones.
TEST(Optimizers, KeepTheBf16CopyFresh) {
  for (const std::string& type : OptimizerRegistry::Get().Names()) {
    Network network = MakeNetwork();
    auto optimizer = Make("type = \"" + type + "\"\n", network);
    for (int i = 0; i < 2; ++i) {
      Step(network, *optimizer, 0.1, Precision::kBf16);
      for (const nn::Parameter* p : network.parameters()) {
        const ConstBf16View half = p->Bf16Value();
        for (int64_t k = 0; k < p->value.size(); ++k) {
          ASSERT_EQ(half.data()[k].bits, ToBf16(p->value.data()[k]).bits) << type << " " << p->name;
        }
      }
    }
  }
}

TEST(Optimizers, GoOnBitForBitFromASavedState) {
  const testing::TemporaryFolder folder;
  for (const std::string& type : OptimizerRegistry::Get().Names()) {
    const std::string toml = "type = \"" + type + "\"\n" + (type == "sgd" ? "momentum = 0.9\n" : "");
    Network whole = MakeNetwork();
    auto optimizer = Make(toml, whole);
    for (int i = 0; i < 3; ++i) Step(whole, *optimizer, 0.01);
    Network resumed = whole.Clone();
    SafetensorsWriter writer;
    optimizer->SaveState(writer, "optimizer.");
    writer.Write(folder / "state.safetensors");
    for (int i = 0; i < 3; ++i) Step(whole, *optimizer, 0.01);

    auto again = Make(toml, resumed);
    again->LoadState(SafetensorsReader(folder / "state.safetensors"), "optimizer.");
    for (int i = 0; i < 3; ++i) Step(resumed, *again, 0.01);
    EXPECT_EQ(resumed.Hash(), whole.Hash()) << type;
  }
}

// A quadratic bowl 0.5·Σ h w² has the exact path w_k = (1 − ε·h)^k·w_0.
TEST(Sgd, FollowsTheExactPathInAQuadratic) {
  Network network(Config::Parse("[[layer]]\ntype='linear'\ndim=1\n", "net"), 3, 1, 1);
  const double h[] = {0.5, 1.0, 1.9};
  const std::vector<float> start = Values(network);
  auto optimizer = Make("", network);
  for (int step = 0; step < 20; ++step) {
    std::vector<float> gradient(network.num_values());
    for (size_t i = 0; i < 3; ++i) gradient[i] = static_cast<float>(h[i]) * network.values()[i];
    optimizer->BeginStep(1.0);
    optimizer->TakeAll(network, gradient);
    optimizer->EndStep();
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(network.values()[i], std::pow(1 - h[i], 20) * static_cast<double>(start[i]), 1e-5);
  }
}

}  // namespace
}  // namespace antiphon::optim
