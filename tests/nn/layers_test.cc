// What is special about single layers; what holds for all stands in tests/conformance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "nn/network.h"

namespace antiphon::nn {
namespace {

Network Build(const std::string& layers, int in) {
  return Network(Config::Parse("layer = [" + layers + "]", "net.toml"), in, 0, 1);
}

Matrix UnevenMatrix(int64_t rows, int64_t cols, uint64_t seed) {
  Rng rng(seed);
  Matrix m(rows, cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) m(r, c) = static_cast<float>(rng.Normal() * (1 + static_cast<double>(c)) + 3);
  }
  return m;
}

void MeanAndVariance(ConstMatrixView m, int64_t c, double& mean, double& variance) {
  mean = variance = 0;
  for (int64_t r = 0; r < m.rows(); ++r) mean += static_cast<double>(m(r, c)) / static_cast<double>(m.rows());
  for (int64_t r = 0; r < m.rows(); ++r) {
    variance += std::pow(static_cast<double>(m(r, c)) - mean, 2) / static_cast<double>(m.rows());
  }
}

TEST(BatchNorm, OutputsHaveMeanZeroAndTheExpectedDeviation) {
  const Network net = Build("{type='batch-norm', epsilon=0.5, target-rms=2.0}", 7);
  const Matrix x = UnevenMatrix(200, 7, 1);
  Workspace ws;
  const MatrixView y = net.Forward({.training = true}, x, ws);
  for (int64_t c = 0; c < 7; ++c) {
    double x_mean = 0, x_variance = 0, mean = 0, variance = 0;
    MeanAndVariance(x, c, x_mean, x_variance);
    MeanAndVariance(y, c, mean, variance);
    EXPECT_NEAR(mean, 0, 1e-5);
    EXPECT_NEAR(std::sqrt(variance), 2 * std::sqrt(x_variance / (x_variance + 0.5)), 1e-4);
  }
}

TEST(BatchNorm, LeavesWhatStandsBehindItsColumns) {
  Network net = Build("{type='batch-norm', columns=3}", 5);
  const Matrix x = UnevenMatrix(200, 5, 1);
  Workspace ws;
  for (const bool training : {true, false}) {
    const MatrixView y = net.Forward({.training = training}, x, ws);
    for (int64_t r = 0; r < x.rows(); ++r) {
      for (int64_t c = 3; c < 5; ++c) ASSERT_EQ(y(r, c), x(r, c)) << training;
    }
  }
  double mean = 0, variance = 0;
  MeanAndVariance(net.Forward({.training = true}, x, ws), 2, mean, variance);
  EXPECT_NEAR(mean, 0, 1e-5);
  EXPECT_NEAR(variance, 1, 1e-3);
  EXPECT_NE(net.ToToml().find("columns = 3"), std::string::npos);
  EXPECT_EQ(Build("{type='batch-norm'}", 5).ToToml().find("columns"), std::string::npos);
  EXPECT_THROW(Build("{type='batch-norm', columns=6}", 5), UsageError);
}

TEST(BatchNorm, RecomputedStatisticsNormaliseTheDataWhenScoring) {
  Network net = Build("{type='affine', dim=7}, {type='batch-norm'}", 7);
  const Matrix x = UnevenMatrix(400, 7, 1);
  Workspace ws;
  int64_t at = 0;
  ASSERT_TRUE(net.has_statistics());
  net.RecomputeStatistics(
      {},
      [&]() -> NetworkInput {
        if (at == 400) return {};
        at += 100;
        return {x.view().Rows(at - 100, 100)};
      },
      ws);
  const MatrixView y = net.Forward({}, x, ws);
  for (int64_t c = 0; c < 7; ++c) {
    double mean = 0, variance = 0;
    MeanAndVariance(y, c, mean, variance);
    EXPECT_NEAR(mean, 0, 1e-3);
    EXPECT_NEAR(variance, 1, 1e-2);
  }
}

// Those of several networks may be added up, other buffers not.
TEST(BatchNorm, StatisticsAreListedWithoutOtherBuffers) {
  Network net = Build(
      "{type='normalize'}, {type='residual', layers=[{type='quantized-affine', dim=5, weight-bits=8, input-bits=8}, "
      "{type='batch-norm'}]}, {type='batch-norm'}",
      5);
  std::vector<Parameter*> list;
  net.ListStatistics(list);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_GT(net.buffers().size(), 4U);
  for (const Parameter* p : list) EXPECT_TRUE(p->name.ends_with("statistics")) << p->name;
  list.clear();
  net.FreezeStatistics();
  net.ListStatistics(list);
  EXPECT_TRUE(list.empty());
}

// Inside the shortcut, units 0 … 3 are zero for every frame, unit 4 is 1, and unit 5 varies little around 1.
TEST(BatchNorm, TellsHowManyReluUnitsBeforeItDoNotVary) {
  const std::string hidden = "{type='affine', dim=10}, {type='relu'}, {type='batch-norm'}";
  Network net = Build("{type='batch-norm'}, " + hidden + ", {type='residual', name='r', layers=[" + hidden +
                          "]}, {type='affine', dim=3}, {type='batch-norm'}",
                      10);
  std::vector<StillInputs> list;
  net.ListStillUnits(list);
  ASSERT_EQ(list.size(), 2U) << "neither behind the input nor behind the last affine layer";
  EXPECT_EQ(list[0].still, 0) << "no statistics yet";
  for (Parameter* p : net.parameters()) {
    if (p->name == "r.affine1.weight") {
      for (int64_t unit = 0; unit < 6; ++unit) std::ranges::fill(p->value.Row(unit), unit < 5 ? 0.0f : 0.01f);
    }
    if (p->name == "r.affine1.bias") {
      for (int64_t unit = 0; unit < 6; ++unit) p->value(0, unit) = unit < 4 ? -1.0f : 1.0f;
    }
  }
  net.MarkChanged();
  Workspace ws;
  bool given = false;
  const Matrix x = UnevenMatrix(400, 10, 1);
  const auto once = [&]() -> NetworkInput { return std::exchange(given, true) ? NetworkInput() : NetworkInput{x}; };
  net.RecomputeStatistics({}, once, ws);
  list.clear();
  net.ListStillUnits(list);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].statistics->name, "batch-norm2.statistics");
  EXPECT_EQ(list[0].all, 10);
  EXPECT_EQ(list[0].still, 0);
  EXPECT_EQ(list[1].statistics->name, "r.batch-norm1.statistics");
  EXPECT_EQ(list[1].still, 5) << "what varies little varies";
  net.FreezeStatistics();
  list.clear();
  net.ListStillUnits(list);
  EXPECT_TRUE(list.empty());
}

TEST(BatchNorm, RunningStatisticsForgetOldMinibatches) {
  Network net = Build("{type='batch-norm', decay=0.5}", 3);
  Workspace ws;
  NullGradientSink sink;
  const ExecContext training{.training = true};
  for (int i = 0; i < 30; ++i) {
    Matrix x = UnevenMatrix(100, 3, 1);
    if (i < 10) {
      for (int64_t k = 0; k < x.size(); ++k) x.data()[k] += 1000;
    }
    const MatrixView y = net.Forward(training, x, ws);
    net.Backward(training, y, ws, sink, true);
  }
  const MatrixView y = net.Forward({}, UnevenMatrix(100, 3, 1), ws);
  double mean = 0, variance = 0;
  MeanAndVariance(y, 1, mean, variance);
  EXPECT_NEAR(mean, 0, 0.01);
}

TEST(Dropout, KeepsTheMeanAndDropsItsShare) {
  const Network net = Build("{type='dropout', proportion=0.3}", 100);
  Matrix x(1000, 100);
  for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = 1;
  Workspace ws;
  const MatrixView y = net.Forward({.training = true}, x, ws);
  double sum = 0;
  int64_t zeros = 0;
  for (int64_t i = 0; i < y.size(); ++i) {
    sum += static_cast<double>(y.data()[i]);
    if (y.data()[i] == 0) ++zeros;
  }
  EXPECT_NEAR(sum / 1e5, 1, 0.01);
  EXPECT_NEAR(static_cast<double>(zeros) / 1e5, 0.3, 0.01);
  const MatrixView scored = net.Forward({}, x, ws);
  EXPECT_EQ(scored(3, 4), 1);
}

TEST(Dropout, MasksDependOnSeedStepAndLayerOnly) {
  const Network net = Build("{type='dropout'}", 64);
  const Network other = Build("{type='normalize'}, {type='dropout'}", 64);
  Matrix x(8, 64);
  for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = 1;
  const auto mask = [&](const Network& n, uint64_t seed, int64_t step, double factor) {
    Workspace ws;
    return Matrix(n.Forward({.training = true, .seed = seed, .step = step, .dropout_factor = factor}, x, ws));
  };
  const auto same = [](const Matrix& a, const Matrix& b) {
    return std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size()) * sizeof(float)) == 0;
  };
  EXPECT_TRUE(same(mask(net, 1, 5, 1), mask(net.Clone(), 1, 5, 1)));
  EXPECT_FALSE(same(mask(net, 1, 5, 1), mask(net, 1, 6, 1)));
  EXPECT_FALSE(same(mask(net, 1, 5, 1), mask(net, 2, 5, 1)));
  EXPECT_FALSE(same(mask(net, 1, 5, 1), mask(other, 1, 5, 1)));
  EXPECT_TRUE(same(mask(net, 1, 5, 0), x));
}

TEST(Renorm, GivesEveryFrameItsLength) {
  const Network net = Build("{type='renorm', target-rms=0.5}", 20);
  Matrix x = UnevenMatrix(4, 20, 1);
  for (float& v : x.Row(2)) v = 0;
  Workspace ws;
  const MatrixView y = net.Forward({}, x, ws);
  for (int64_t r = 0; r < 4; ++r) {
    double squares = 0;
    for (const float v : y.Row(r)) squares += static_cast<double>(v) * static_cast<double>(v);
    EXPECT_NEAR(std::sqrt(squares), r == 2 ? 0 : 0.5 * std::sqrt(20.0), 1e-5);
  }
}

TEST(PNorm, IsTheNormOfEachGroup) {
  Network net = Build("{type='p-norm', dim=2}", 6);
  Matrix x(2, 6);
  const float values[] = {3, 4, 0, 1e30f, 0, 0};
  std::copy_n(values, 6, x.Row(0).data());
  Workspace ws;
  const MatrixView y = net.Forward({}, x, ws);
  EXPECT_FLOAT_EQ(y(0, 0), 5);
  EXPECT_FLOAT_EQ(y(0, 1), 1e30f);
  EXPECT_EQ(y(1, 0), 0);
  NullGradientSink sink;
  Matrix dy(2, 2);
  dy(1, 0) = 1;
  const MatrixView dx = net.Backward({}, dy, ws, sink, true);
  EXPECT_EQ(dx(1, 0), 0);
  EXPECT_THROW(Build("{type='p-norm', dim=4}", 6), UsageError);
}

}  // namespace
}  // namespace antiphon::nn
