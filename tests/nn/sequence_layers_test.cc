// Layers that look at several frames or carry a state: what they compute, and that pieces give what the whole gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/toml_text.h"
#include "nn/layers/inner_chain.h"
#include "nn/network.h"
#include "nn/sequence_networks.h"
#include "random_matrix.h"

namespace antiphon::nn {
namespace {

using testing::RandomMatrix;

// Utterances of equal length, with their edges repeated as a network needs them, frames first … of them as time-major
// rows.
Matrix Piece(const std::vector<Matrix>& utterances, const TimeContext& needed, int first, int outputs) {
  const auto streams = std::ssize(utterances);
  Matrix x(needed.InputFrames(outputs) * streams, utterances[0].cols());
  for (int64_t r = 0; r < x.rows(); ++r) {
    const Matrix& u = utterances[static_cast<size_t>(r % streams)];
    const int64_t frame = std::clamp<int64_t>(first + r / streams - needed.left, 0, u.rows() - 1);
    std::copy_n(u.Row(frame).data(), u.cols(), x.Row(r).data());
  }
  return x;
}

Matrix RunNet(const Network& net, const Matrix& x, int streams, bool begins, Workspace& ws) {
  const std::vector<uint8_t> all(static_cast<size_t>(streams), begins ? 1 : 0);
  const SequenceLayout layout{.streams = streams, .begins = all};
  ExecContext ctx;
  ctx.sequences = &layout;
  return Matrix(ConstMatrixView(net.Forward(ctx, x, ws)));
}

const std::vector<std::string>& Networks() {
  static const std::vector<std::string> networks = {
      "{type='tdnn', dim=6, offsets=[-2, 0, 1]}, {type='relu'}, {type='tdnn', dim=5, offsets=[-3, 3]}",
      "{type='lstm', dim=6, projection=4}",
      "{type='gru', dim=5}, {type='affine', dim=3}",
      "{type='convolution', filters=3, offsets=[-1, 0, 1]}, {type='pooling', channels=3, window=2}, {type='tdnn', "
      "dim=3}",
      "{type='tdnn', dim=6}, {type='tdnn-f', dim=6, bottleneck=3}, {type='residual', layers=[{type='lstm', dim=6}]}, "
      "{type='tdnn-f', dim=6, bottleneck=3, time-stride=2}",
      "{type='tdnn', dim=6}, {type='lstm', dim=6, projection=4}, {type='tdnn', dim=5, offsets=[-2, 0, 2]}, "
      "{type='gru', dim=4}",
      "{type='tdnn', dim=6}, {type='lstm', dim=5}, {type='splice', offsets=[-1, 0, 1], stride=3}, {type='gru', dim=4}",
      "{type='tdnn', dim=6}, {type='tdnn-f', dim=6, bottleneck=3, stride=3}, {type='tdnn-f', dim=6, bottleneck=3, "
      "time-stride=0}, {type='tdnn-f', dim=6, bottleneck=3}, {type='linear', dim=3}",
      "{type='tdnn', dim=6}, {type='tdnn-f', dim=6, bottleneck=3, time-stride=0, stride=2}, {type='tdnn-f', dim=4, "
      "bottleneck=3, bypass=0}",
      "{type='tdnn', dim=6}, {type='bidirectional', right=3, layers=[{type='gru', dim=3}]}, {type='tdnn', dim=4}"};
  return networks;
}

TEST(Sequences, PiecesWithCarriedStatesGiveWhatTheWholeGives) {
  for (const std::string& layers : Networks()) {
    const Network net = BuildSequence(layers, 3);
    const TimeContext needed = net.time_context();
    const std::vector<Matrix> utterances = {RandomMatrix(24, 3, 1), RandomMatrix(24, 3, 2)};
    const int outputs = 24 / needed.stride;
    Workspace whole_ws, ws;
    const Matrix whole = RunNet(net, Piece(utterances, needed, 0, outputs), 2, true, whole_ws);
    ASSERT_EQ(whole.rows(), 2 * outputs);
    for (const int length : {1, 2, 4}) {
      for (int first = 0; first < outputs; first += length) {
        const Matrix piece = RunNet(net, Piece(utterances, needed, first * needed.stride, length), 2, first == 0, ws);
        ExpectNear(piece, whole.view().Rows(2 * first, 2 * length), 1e-5, layers);
      }
    }
  }
}

TEST(Sequences, StreamsDoNotKnowOfEachOther) {
  for (const std::string& layers : Networks()) {
    const Network net = BuildSequence(layers, 3);
    const TimeContext needed = net.time_context();
    const std::vector<Matrix> utterances = {RandomMatrix(9, 3, 1), RandomMatrix(9, 3, 2), RandomMatrix(9, 3, 3)};
    const int outputs = 9 / needed.stride;
    Workspace together_ws;
    const Matrix together = RunNet(net, Piece(utterances, needed, 0, outputs), 3, true, together_ws);
    for (size_t s = 0; s < 3; ++s) {
      Workspace ws;
      const Matrix alone = RunNet(net, Piece({utterances[s]}, needed, 0, outputs), 1, true, ws);
      for (int t = 0; t < outputs; ++t) {
        ExpectNear(alone.view().Rows(t, 1), together.view().Rows(3 * t + static_cast<int64_t>(s), 1), 1e-5, layers);
      }
    }
  }
}

TEST(Sequences, AnUtteranceThatBeginsForgetsTheStreamsLastOne) {
  for (const std::string& layers : Networks()) {
    const Network net = BuildSequence(layers, 3);
    const Matrix first = Piece({RandomMatrix(12, 3, 1)}, net.time_context(), 0, 2);
    const Matrix second = Piece({RandomMatrix(12, 3, 2)}, net.time_context(), 0, 2);
    Workspace ws, fresh;
    RunNet(net, first, 1, true, ws);
    const Matrix after = RunNet(net, second, 1, true, ws);
    EXPECT_EQ(std::memcmp(after.data(), RunNet(net, second, 1, true, fresh).data(), sizeof(float) * 2), 0) << layers;
    const Matrix carried = RunNet(net, second, 1, false, ws);
    EXPECT_EQ(net.recurrent(), std::memcmp(after.data(), carried.data(), sizeof(float) * 2) != 0) << layers;
  }
}

TEST(Sequences, StatesAreSavedAndBroughtBack) {
  const Network net = BuildSequence(Networks()[5], 3);
  const Matrix first = Piece({RandomMatrix(12, 3, 1)}, net.time_context(), 0, 4);
  Workspace ws, other;
  RunNet(net, first, 1, true, ws);
  other.SetStates(ws.States());
  const Matrix a = RunNet(net, first, 1, false, ws), b = RunNet(net, first, 1, false, other);
  EXPECT_EQ(std::memcmp(a.data(), b.data(), sizeof(float) * static_cast<size_t>(a.size())), 0);
  const std::vector<std::byte> states = ws.States();
  EXPECT_THROW(other.SetStates(std::span(states).first(20)), InputError);
  Workspace plain;
  EXPECT_TRUE(plain.States().empty());
}

TEST(Tdnn, ShiftedInputGivesShiftedOutput) {
  const Network net = BuildSequence(Networks()[0], 3);
  const Matrix x = RandomMatrix(20, 3, 1);
  Workspace ws, shifted_ws;
  const MatrixView y = net.Forward({}, x, ws);
  const MatrixView shifted = net.Forward({}, x.view().Rows(1, 19), shifted_ws);
  ExpectNear(shifted, y.Rows(1, y.rows() - 1), 1e-6, "shifted");
}

TEST(Tdnn, WithOneOffsetIsAnAffineLayer) {
  Network tdnn = BuildSequence("{type='tdnn', dim=4, offsets=[0]}", 3);
  Network affine = BuildSequence("{type='affine', dim=4}", 3);
  for (size_t i = 0; i < 2; ++i) {
    Parameter &from = *tdnn.parameters()[i], &to = *affine.parameters()[i];
    std::copy_n(from.value.data(), from.value.size(), to.value.data());
  }
  affine.MarkChanged();
  const Matrix x = RandomMatrix(20, 3, 1);
  Workspace a, b;
  const MatrixView y = tdnn.Forward({}, x, a), z = affine.Forward({}, x, b);
  EXPECT_EQ(std::memcmp(y.data(), z.data(), sizeof(float) * 80), 0);
}

TEST(Tdnn, KeysOfTheTwoLayersAreTold) {
  const Network net =
      BuildSequence("{type='tdnn', dim=4, offsets=[-1, 2], stride=2, name='x', learning-rate-factor=0.5}", 3);
  ASSERT_EQ(net.num_layers(), 2u);
  EXPECT_EQ(net.layer_name(0), "x.splice");
  EXPECT_EQ(net.layer_name(1), "x");
  EXPECT_EQ(net.time_context(), (TimeContext{1, 2, 2}));
  EXPECT_EQ(net.parameters()[0]->learning_rate_factor, 0.5f);
  EXPECT_THROW(BuildSequence("{type='tdnn', dim=4, ofsets=[0]}", 3), UsageError);
}

TEST(Tdnn, LayersAreCalledAsTheirTableSays) {
  for (const std::string name : {"it's", "say \"a\"", "back\\slash", "'quoted'", "12", "true"}) {
    const Network net =
        BuildSequence("{type='tdnn', dim=4, name=" + TomlString(name) +
                          "}, {type='tdnn-f', dim=4, bottleneck=2, name=" + TomlString(name + "2") + "}",
                      4);
    ASSERT_EQ(net.num_layers(), 3u) << name;
    EXPECT_EQ(net.layer_name(0), name + ".splice");
    EXPECT_EQ(net.layer_name(1), name);
    EXPECT_EQ(net.layer_name(2), name + "2");
  }
}

TEST(Splice, RefusesMoreValuesThanAnyLayerHas) {
  std::string offsets = "0";
  for (int i = 1; i < 40000; ++i) offsets += ", 0";
  EXPECT_THROW(BuildSequence("{type='splice', offsets=[" + offsets + "]}", 1 << 17), UsageError);
  EXPECT_THROW(BuildSequence("{type='convolution', filters=1048576}", 1 << 13), UsageError);
  EXPECT_THROW(
      BuildSequence("{type='convolution', filters=1, window=65536, channels=4096, offsets=[-1, 0, 1, 2]}", 1 << 12),
      UsageError);
}

// The definition, sum by sum.
TEST(TdnnF, IsWhatItsDefinitionSays) {
  for (const int stride : {1, 3}) {
    for (const int s : {0, 1, 2}) {
      Network net = BuildSequence("{type='tdnn-f', dim=4, bottleneck=2, time-stride=" + std::to_string(s) +
                                      ", bypass=0.66, dropout=0.2, stride=" + std::to_string(stride) + "}",
                                  4);
      EXPECT_EQ(net.time_context(), (TimeContext{s, s, stride}));
      const Matrix x = RandomMatrix(20, 4, 1);
      Workspace ws;
      const MatrixView y = net.Forward({}, x, ws);
      ASSERT_EQ(net.parameters().size(), 3u);
      const ConstMatrixView b = net.parameters()[0]->value, a = net.parameters()[1]->value,
                            bias = net.parameters()[2]->value;
      const auto bottleneck = [&](int64_t t, int64_t k) {
        double sum = 0;
        for (int64_t c = 0; c < 4; ++c) {
          if (s > 0) sum += static_cast<double>(b(k, c)) * static_cast<double>(x(t - s, c));
          sum += static_cast<double>(b(k, s > 0 ? 4 + c : c)) * static_cast<double>(x(t, c));
        }
        return sum;
      };
      ASSERT_EQ(y.rows(), (20 - 2 * s) / stride);
      for (int64_t j = 0; j < y.rows(); ++j) {
        const int64_t t = s + j * stride;
        for (int64_t d = 0; d < 4; ++d) {
          double sum = static_cast<double>(bias(0, d));
          for (int64_t k = 0; k < 2; ++k) {
            sum += static_cast<double>(a(d, k)) * bottleneck(t, k);
            if (s > 0) sum += static_cast<double>(a(d, 2 + k)) * bottleneck(t + s, k);
          }
          // Batch statistics that nobody gathered: mean 0, variance 1.
          const double expected = std::max(sum, 0.0) / std::sqrt(1.001) + 0.66 * static_cast<double>(x(t, d));
          EXPECT_NEAR(y(j, d), expected, 1e-5) << stride << " " << s;
        }
      }
    }
  }
  EXPECT_EQ(BuildSequence("{type='tdnn-f', dim=4, bottleneck=2, max-change=0.5}", 4).parameters()[1]->max_change, 0.5f);
}

TEST(TdnnF, HasItsNameWithAndWithoutShortcut) {
  const Network whole = BuildSequence("{type='tdnn-f', name='x', dim=4, bottleneck=2}", 4);
  EXPECT_EQ(whole.layer_name(0), "x");
  const Network plain = BuildSequence("{type='tdnn-f', name='x', dim=5, bottleneck=2, bypass=0}", 4);
  std::vector<std::string> names;
  for (size_t i = 0; i < plain.num_layers(); ++i) names.push_back(plain.layer_name(i));
  EXPECT_TRUE(std::ranges::count(names, "x.linear") == 1 && std::ranges::count(names, "x") == 1)
      << ::testing::PrintToString(names);
}

// As training brings them there, however far off they begin.
TEST(TdnnF, RowsOfTheLowerFactorBecomeOrthogonal) {
  for (const double init : {1.0, 30.0}) {
    Network net =
        BuildSequence("{type='linear', dim=40, orthonormal=true, init-scale=" + std::to_string(init) + "}", 60);
    const ConstMatrixView w = net.parameters()[0]->value;
    const auto spread = [&] {
      double trace = 0, square = 0;
      for (int64_t i = 0; i < 40; ++i) {
        for (int64_t j = 0; j < 40; ++j) {
          double dot = 0;
          for (int64_t c = 0; c < 60; ++c) dot += static_cast<double>(w(i, c)) * static_cast<double>(w(j, c));
          square += dot * dot;
          if (i == j) trace += dot;
        }
      }
      return square * 40 / (trace * trace);
    };
    EXPECT_GT(spread(), 1.3);
    double last = spread();
    for (int64_t step = 0; step < 240; ++step) {
      net.AfterStep(step);
      const double now = spread();
      EXPECT_LE(now, last + 1e-6) << "step " << step;
      last = now;
    }
    EXPECT_LT(last, 1.001);
  }
}

TEST(Dropout, OfAChunkIsTheSameForItsFramesAndAnotherForOtherChunks) {
  const Network net = BuildSequence("{type='dropout', proportion=0.3, per-chunk=true, continuous=true}", 200);
  Matrix x(12, 200);
  for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = 1;
  const SequenceLayout layout{.streams = 3, .frames = 4};
  ExecContext ctx;
  ctx.training = true;
  ctx.sequences = &layout;
  Workspace ws;
  const MatrixView y = net.Forward(ctx, x, ws);
  double sum = 0, least = 2, most = 0;
  int same = 0;
  for (int64_t r = 0; r < 12; ++r) {
    for (int64_t c = 0; c < 200; ++c) {
      EXPECT_EQ(y(r, c), y(r % 3, c));
      sum += static_cast<double>(y(r, c)) / 2400;
      least = std::min(least, static_cast<double>(y(r, c)));
      most = std::max(most, static_cast<double>(y(r, c)));
      same += y(r, c) == y((r + 1) % 3, c) ? 1 : 0;
    }
  }
  EXPECT_NEAR(sum, 1.0, 0.05);
  EXPECT_GE(least, 0.4);
  EXPECT_LT(least, 0.45);
  EXPECT_LE(most, 1.6);
  EXPECT_GT(most, 1.55);
  EXPECT_LT(same, 10);
  EXPECT_THROW(BuildSequence("{type='dropout', per-chunk=true, per-frame=true}", 3), UsageError);
  EXPECT_THROW(BuildSequence("{type='dropout', continuous=true, proportion=0.6}", 3), UsageError);
}

TEST(Prefinal, IsFiveLayersWhoseProductsTakeTheCommonKeys) {
  const Network net = BuildSequence("{type='prefinal', dim=6, bottleneck=3, name='p', weight-decay-factor=0.5}", 4);
  ASSERT_EQ(net.num_layers(), 5u);
  EXPECT_EQ(net.out_dim(), 3);
  EXPECT_EQ(net.layer_name(4), "p");
  ASSERT_EQ(net.parameters().size(), 3u);
  EXPECT_EQ(net.parameters()[0]->decay_factor, 0.5f);
  EXPECT_EQ(net.parameters()[1]->decay_factor, 0.0f) << "biases do not decay";
  EXPECT_EQ(net.Clone().parameters()[2]->decay_factor, 0.5f);
}

TEST(Linear, OrthonormalRowsAreKeptSo) {
  Network net = BuildSequence("{type='linear', dim=4, orthonormal=true}", 9);
  const ConstMatrixView w = net.parameters()[0]->value;
  for (int64_t step = 0; step < 100; ++step) net.AfterStep(step);
  double length = 0;
  for (const float v : w.Row(0)) length += static_cast<double>(v) * static_cast<double>(v);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      double dot = 0;
      for (int64_t c = 0; c < 9; ++c) dot += static_cast<double>(w(i, c)) * static_cast<double>(w(j, c));
      EXPECT_NEAR(dot, i == j ? length : 0.0, 1e-4 * length);
    }
  }
  EXPECT_THROW(BuildSequence("{type='linear', dim=4, orthonormal=true}", 3), UsageError);
}

// Of several steps at once: once if it is due after one of them.
TEST(Linear, RowsAreCorrectedOnceForSeveralSteps) {
  const auto after = [](int64_t first, int64_t count) {
    Network net = BuildSequence("{type='linear', dim=4, orthonormal=true}", 9);
    net.AfterSteps(first, count);
    return net.Hash();
  };
  const uint64_t once = after(4, 1);
  EXPECT_NE(once, after(1, 1));
  for (const int64_t first : {2, 3, 4}) EXPECT_EQ(after(first, 3), once) << first;
  EXPECT_EQ(after(3, 16), once);
  EXPECT_EQ(after(5, 3), after(1, 1));
}

TEST(BatchNorm, PaddingHasNoPartInIt) {
  const Network net = BuildSequence("{type='batch-norm'}, {type='tdnn', dim=3, offsets=[-1, 0]}", 4);
  const std::vector<int32_t> lengths = {4, 2};
  const SequenceLayout layout{.streams = 2, .frames = 4, .lengths = lengths};
  ExecContext ctx;
  ctx.training = true;
  ctx.sequences = &layout;
  Matrix x = RandomMatrix(10, 4, 1);  // 5 frames of 2 streams
  Workspace a, b;
  const Matrix y(ConstMatrixView(net.Forward(ctx, x, a)));
  for (const int64_t frame : {3, 4}) x(2 * frame + 1, 0) += 10;
  const MatrixView z = net.Forward(ctx, x, b);
  for (const int64_t row : {0, 1, 2, 3, 4, 6}) {
    for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(y(row, c), z(row, c)) << row;
  }
}

TEST(BatchNorm, AnEmptyStreamHasNoPartInItWhateverContextIsAbove) {
  const Network net = BuildSequence("{type='batch-norm'}, {type='tdnn', dim=3, offsets=[-2, 0, 1]}", 4);
  const std::vector<int32_t> lengths = {4, 0};
  const SequenceLayout layout{.streams = 2, .frames = 4, .lengths = lengths};
  ExecContext ctx;
  ctx.training = true;
  ctx.sequences = &layout;
  Matrix x = RandomMatrix(14, 4, 1);  // 7 frames of 2 streams
  Workspace a, b;
  const Matrix y(ConstMatrixView(net.Forward(ctx, x, a)));
  for (int64_t frame = 0; frame < 7; ++frame) x(2 * frame + 1, 0) += 10;
  const MatrixView z = net.Forward(ctx, x, b);
  for (const int64_t row : {0, 2, 4, 6}) {
    for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(y(row, c), z(row, c)) << row;
  }
}

TEST(Residual, AddsTheFrameThatAnOutputStandsFor) {
  const Network with = BuildSequence("{type='residual', scale=0.5, layers=[{type='tdnn', dim=3, offsets=[-2, 1]}]}", 3);
  const Network without =
      BuildSequence("{type='residual', scale=0, layers=[{type='tdnn', dim=3, offsets=[-2, 1]}]}", 3);
  const Matrix x = RandomMatrix(8, 3, 1);
  Workspace a, b;
  const MatrixView y = with.Forward({}, x, a), z = without.Forward({}, x, b);
  ASSERT_EQ(y.rows(), 5);
  for (int64_t t = 0; t < 5; ++t) {
    for (int64_t c = 0; c < 3; ++c) EXPECT_NEAR(y(t, c), z(t, c) + 0.5f * x(t + 2, c), 1e-6);
  }
  EXPECT_EQ(with.layer_name(0), "residual1");
  EXPECT_EQ(Network(Config::Parse(with.ToToml(), "again"), 3, 0, 1).Hash(), with.Hash());
}

// The network passes derivatives down in matrices with gaps between their rows.
TEST(SequenceLayers, OverwriteDerivativesWhoseRowsLieApart) {
  for (const std::string layers :
       {"{type='bidirectional', right=1, layers=[{type='gru', dim=2}]}", "{type='lstm', dim=4, projection=2}",
        "{type='residual', layers=[{type='tdnn', dim=3}]}", "{type='splice'}",
        "{type='convolution', filters=2, offsets=[-1, 0]}"}) {
    Network net = BuildSequence(layers, 3);
    const Matrix x = RandomMatrix(12, 3, 5);
    Workspace ws;
    ExecContext ctx;
    const MatrixView y = net.Forward(ctx, x, ws);
    const Matrix dy = RandomMatrix(y.rows(), y.cols(), 6);
    std::vector<float> gradient(net.num_values());
    DenseGradientSink sink(gradient);
    Matrix close(12, 3), apart(12, 5);
    std::fill_n(apart.data(), apart.size(), std::numeric_limits<float>::quiet_NaN());
    net.layer(0).Backward(ctx, dy, ws.Child(0), close, sink);
    net.Forward(ctx, x, ws);
    net.layer(0).Backward(ctx, dy, ws.Child(0), apart.view().Cols(0, 3), sink);
    ExpectNear(apart.view().Cols(0, 3), close, 0, layers);
    for (int64_t r = 0; r < 12; ++r) EXPECT_TRUE(std::isnan(apart(r, 3))) << layers;
  }
}

// Two layers, or two directions of one, with the same masks would lose the same units.
TEST(InnerChains, DrawMasksOfTheirOwn) {
  ExecContext ctx;
  ctx.seed = 7;
  std::set<uint64_t> seeds = {ctx.seed};
  for (uint64_t index = 0; index < 20; ++index) {
    for (const uint64_t which : {0, 1}) seeds.insert(InsideChain(ctx, index, which).seed);
  }
  EXPECT_EQ(seeds.size(), 41u);
  // A shortcut around dropout alone: y = 3·x where a value is kept, x where it is dropped.
  const std::string dropout = "layers=[{type='dropout', proportion=0.5}]";
  Network net = BuildSequence("{type='residual', " + dropout + "}, {type='residual', " + dropout + "}", 50);
  const Matrix ones = [] {
    Matrix m(40, 50);
    std::fill_n(m.data(), m.size(), 1.0f);
    return m;
  }();
  ctx.training = true;
  Workspace ws;
  const Matrix y(ConstMatrixView(net.Forward(ctx, ones, ws)));
  int64_t between = 0;  // dropped by one layer and kept by the other
  for (int64_t i = 0; i < y.size(); ++i) between += y.data()[i] > 1.5f && y.data()[i] < 8.5f ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(between), 1000, 100);
}

TEST(InnerChains, SayForWhatTheyAreMissing) {
  for (const char* type : {"residual", "bidirectional", "ensemble"}) {
    try {
      BuildSequence(std::string("{type='") + type + "'}", 3);
      FAIL() << type;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(std::string("'") + type + "'"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("test:1"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace antiphon::nn
