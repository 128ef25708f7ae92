#include "nn/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "random_matrix.h"

namespace antiphon::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTwoHidden[] = R"(
[[layer]]
type = "repeat"
times = 2
layers = [{type = "affine", dim = 16}, {type = "sigmoid"}]
[[layer]]
type = "affine"
)";

Network BuildFrom(const std::string& toml, int in, int out, uint64_t seed = 1) {
  return Network(Config::Parse(toml, "net.toml"), in, out, seed);
}

using testing::RandomMatrix;

std::string ErrorOf(const std::string& toml, int in = 4, int out = 3) {
  try {
    BuildFrom(toml, in, out);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST(Network, IsBuiltFromItsDescription) {
  const Network net = BuildFrom(kTwoHidden, 8, 5);
  ASSERT_EQ(net.num_layers(), 5u);
  EXPECT_EQ(net.layer_name(0), "affine1");
  EXPECT_EQ(net.layer_name(3), "sigmoid2");
  EXPECT_EQ(net.out_dim(), 5);
  EXPECT_EQ(net.num_parameters(), 8 * 16 + 16 + 16 * 16 + 16 + 16 * 5 + 5);
  EXPECT_EQ(net.parameters()[0]->name, "affine1.weight");
  EXPECT_EQ(net.parameters()[5]->name, "affine3.bias");
}

TEST(Network, ExplainsWhatIsWrongInItsDescription) {
  EXPECT_THAT(ErrorOf("[[layer]]\ntype = 'affin'\n"), HasSubstr("did you mean 'affine'?"));
  EXPECT_THAT(ErrorOf("[[layer]]\ntype = 'affin'\n"), HasSubstr("net.toml:2"));
  EXPECT_THAT(ErrorOf("[[layer]]\ntype = 'affine'\ndim = 4\nbias-int = 1\n[[layer]]\ntype='affine'"),
              HasSubstr("did you mean 'bias-init'?"));
  EXPECT_THAT(ErrorOf("[[layer]]\ntype = 'affine'\n[[layer]]\ntype = 'relu'\n"), HasSubstr("needs `dim`"));
  EXPECT_THAT(ErrorOf("[[layer]]\ntype = 'affine'\ndim = 7\n"), HasSubstr("has 7 outputs, but the task needs 3"));
  EXPECT_THAT(ErrorOf("other = 1\n"), HasSubstr("at least one [[layer]]"));
  EXPECT_THAT(ErrorOf("[[layer]]\ntype='affine'\ndim=3\nname='a'\n[[layer]]\ntype='affine'\nname='a'"),
              HasSubstr("two layers are called 'a'"));
}

// Also where a layer stands inside another, and where a type that stands for several layers hands its keys on.
TEST(Network, RefusesCommonKeysOutOfRange) {
  const std::string rest = "\n[[layer]]\ntype = 'affine'\n";
  const auto with = [&](const std::string& line) {
    return ErrorOf("[[layer]]\ntype = 'affine'\nname = 'a'\ndim = 4\n" + line + rest);
  };
  const std::string where = "net.toml:2: layer 'a':\n  net.toml:5: ";
  EXPECT_EQ(with("learning-rate-factor = -3"), where + "'learning-rate-factor' is -3, must be 0 … 1000000");
  EXPECT_EQ(with("weight-decay-factor = 1e7"), where + "'weight-decay-factor' is 10000000, must be 0 … 1000000");
  EXPECT_EQ(with("max-change = -2"), where + "'max-change' is -2, must be -1 … 1000000000");
  EXPECT_THAT(with("max-change = nan"), HasSubstr("'max-change' is nan, must be -1 … 1000000000"));
  EXPECT_THAT(with("learning-rate-factor = 'low'"), HasSubstr(where));
  EXPECT_EQ(with("learning-rate-factor = 0\nweight-decay-factor = 1e6\nmax-change = -1"), "");
  EXPECT_THAT(ErrorOf("[[layer]]\ntype = 'residual'\nlayers = [{type = 'affine', dim = 4, max-change = -2}]" + rest),
              HasSubstr("layer 'affine1':\n"));
  EXPECT_THAT(ErrorOf("[[layer]]\ntype = 'prefinal'\ndim = 4\nbottleneck = 2\nlearning-rate-factor = -3" + rest),
              HasSubstr("'learning-rate-factor' is -3, must be 0 … 1000000"));
}

TEST(Network, TakesTheFactorsOfALayersTable) {
  Network net = BuildFrom(
      "[[layer]]\ntype='affine'\ndim=4\nlearning-rate-factor=0.5\nweight-decay-factor=0.25\nmax-change=-1\n"
      "[[layer]]\ntype='affine'\n",
      8, 5);
  const Parameter& weight = *net.parameters()[0];
  EXPECT_EQ(weight.learning_rate_factor, 0.5f);
  EXPECT_EQ(weight.decay_factor, 0.25f);
  EXPECT_EQ(weight.max_change, -1.0f);
  EXPECT_EQ(net.parameters()[2]->learning_rate_factor, 1.0f);
}

TEST(Network, NamesLayersByTheFirstNumberThatIsFree) {
  const Network net =
      BuildFrom("layer = [{type='relu', name='relu2'}, {type='relu'}, {type='relu'}, {type='tanh'}]", 4, 0);
  EXPECT_EQ(net.layer_name(0), "relu2");
  EXPECT_EQ(net.layer_name(1), "relu1");
  EXPECT_EQ(net.layer_name(2), "relu3");
  EXPECT_EQ(net.layer_name(3), "tanh1");
}

TEST(Network, RefusesALayerInsideAndOneBesideWithTheSameFullName) {
  const std::string outer = "[[layer]]\ntype='residual'\nname='r'\nlayers=[{type='affine', dim=4}, {type='relu'}]\n";
  const std::string beside = "[[layer]]\ntype='affine'\ndim=4\nname='r.affine1'\n";
  const std::string output = "[[layer]]\ntype='affine'\n";
  for (const std::string& toml : {outer + beside + output, beside + outer + output}) {
    EXPECT_THAT(ErrorOf(toml), HasSubstr("would both have a 'r.affine1.weight'"));
  }
  EXPECT_THAT(ErrorOf(outer + beside + output), HasSubstr("net.toml:8: layers 'r' and 'r.affine1'"));
  EXPECT_EQ(ErrorOf(outer + "[[layer]]\ntype='affine'\ndim=4\nname='r.affine2'\n" + output), "");
}

// Few words ask for a hundred million layers, also where they are inside of others, and for none a thousand million
// times.
TEST(Network, RefusesMoreLayersThanThereIsMemoryFor) {
  const auto repeat = [](const std::string& layer, int times) {
    return "{type='repeat', times=" + std::to_string(times) + ", layers=[" + layer + "]}";
  };
  const std::string many = repeat("{type='relu'}", 10000);
  EXPECT_THAT(ErrorOf("\nlayer = [" + repeat(many, 10000) + "]"),
              HasSubstr("net.toml:2: a network has at most 100000 layers"));
  EXPECT_THAT(ErrorOf("layer = [" + repeat("{type='residual', layers=[" + many + "]}", 10000) + "]"),
              HasSubstr("at most 100000 layers"));
  const std::string none = repeat(repeat(repeat("{type='relu'}", 0), 10000), 10000);
  EXPECT_EQ(BuildFrom("layer = [" + none + ", {type='affine'}]", 4, 3).num_layers(), 1u);
}

TEST(Network, SeedDecidesTheInitialValues) {
  EXPECT_EQ(BuildFrom(kTwoHidden, 8, 5, 3).Hash(), BuildFrom(kTwoHidden, 8, 5, 3).Hash());
  EXPECT_NE(BuildFrom(kTwoHidden, 8, 5, 3).Hash(), BuildFrom(kTwoHidden, 8, 5, 4).Hash());
}

TEST(Network, DescriptionBuildsTheSameAgain) {
  const Network net = BuildFrom(
      std::string("[[layer]]\ntype='affine'\ndim=4\nlearning-rate-factor=0.5\nmax-change=0.25\n") + kTwoHidden, 8, 5);
  Network again = BuildFrom(net.ToToml(), 8, 5, 77);
  EXPECT_EQ(again.ToToml(), net.ToToml());
  EXPECT_EQ(again.parameters()[0]->learning_rate_factor, 0.5f);
  EXPECT_EQ(again.parameters()[0]->max_change, 0.25f);
  again.CopyFrom(net);
  EXPECT_EQ(again.Hash(), net.Hash());
  EXPECT_EQ(net.Clone().Hash(), net.Hash());
}

TEST(Network, RefusesFramesOfAnotherWidth) {
  const Network net = BuildFrom(kTwoHidden, 8, 5);
  Workspace ws;
  EXPECT_THROW(net.Forward({}, Matrix(3, 7), ws), ShapeError);
}

TEST(Network, HandlesNoFramesAndOneFrame) {
  Network net = BuildFrom(kTwoHidden, 8, 5);
  Workspace ws;
  std::vector<float> gradient(net.num_values());
  DenseGradientSink sink(gradient);
  for (const int n : {0, 1, 0}) {
    const Matrix x(n, 8);
    const MatrixView y = net.Forward({}, x, ws);
    EXPECT_EQ(y.rows(), n);
    const MatrixView dx = net.Backward({}, y, ws, sink, true);
    EXPECT_EQ(dx.rows(), n);
    EXPECT_NE(dx.data(), nullptr) << "as if none were wanted";
  }
}

TEST(Network, HandsOverGradientsFromTheTop) {
  Network net = BuildFrom(kTwoHidden, 8, 5);
  struct Recorder : NullGradientSink {
    void TakeFactors(Parameter& weight, Parameter*, const GradientFactors&) override { names.push_back(weight.name); }
    std::vector<std::string> names;
  } recorder;
  Workspace ws;
  std::vector<size_t> layers;
  const MatrixView y = net.Forward({}, RandomMatrix(3, 8, 1), ws);
  net.Backward({}, y, ws, recorder, false, [&](size_t i) { layers.push_back(i); });
  EXPECT_THAT(recorder.names, ElementsAre("affine3.weight", "affine2.weight", "affine1.weight"));
  EXPECT_THAT(layers, ElementsAre(4, 3, 2, 1, 0));
}

TEST(Network, AllocatesNothingAfterTheFirstPass) {
  Network net = BuildFrom(kTwoHidden, 8, 5);
  Workspace ws;
  NullGradientSink sink;
  const Matrix x = RandomMatrix(6, 8, 1);
  const MatrixView y = net.Forward({}, x, ws);
  net.Backward({}, y, ws, sink);
  const size_t bytes = ws.bytes();
  const float* place = y.data();
  const MatrixView again = net.Forward({}, x, ws);
  net.Backward({}, again, ws, sink);
  EXPECT_EQ(ws.bytes(), bytes);
  EXPECT_EQ(again.data(), place);
}

TEST(Network, GrowsAndShrinksKeepingTheLowerLayers) {
  Network net = BuildFrom(kTwoHidden, 8, 5);
  const float w = net.parameters()[0]->value(3, 2);
  net.Truncate(2);
  EXPECT_EQ(net.out_dim(), 16);
  net.Append(Config::Parse("type='affine'", "grown"), 9, 5);
  EXPECT_EQ(net.out_dim(), 9);
  EXPECT_EQ(net.parameters()[0]->value(3, 2), w);
  Workspace ws;
  EXPECT_EQ(net.Forward({}, RandomMatrix(3, 8, 1), ws).cols(), 9);
}

}  // namespace
}  // namespace antiphon::nn
