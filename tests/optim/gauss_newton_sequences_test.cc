// Gauss–Newton products of networks that look at several frames or carry a state, against an explicit Jᵀ·H·J of the
// same networks written out in double.
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "optim/gauss_newton.h"
#include "random_direction.h"

namespace antiphon::optim {
namespace {

constexpr int kIn = 3;
constexpr int kOut = 3;
constexpr int kStreams = 3;
constexpr int kFrames = 4;  // of outputs

using Rows = std::vector<std::vector<double>>;  // time-major, as SequenceLayout

// Layers in double, with the values of a network's parameters in their order.
class Reference {
 public:
  Reference(const nn::Network& network, std::span<const double> theta, bool first_piece)
      : network_(network), theta_(theta), first_piece_(first_piece) {}

  Rows Affine(const Rows& x) {
    const nn::Parameter& w = Next();
    const nn::Parameter& b = Next();
    Rows y = Product(w, x);
    for (auto& row : y) {
      for (size_t r = 0; r < row.size(); ++r) row[r] += At(b, 0, static_cast<int64_t>(r));
    }
    return y;
  }
  static Rows Tanh(Rows x) {
    for (auto& row : x) {
      for (double& v : row) v = std::tanh(v);
    }
    return x;
  }
  static Rows Splice(const Rows& x, std::initializer_list<int> offsets, int stride = 1) {
    const int left = std::max(0, -*offsets.begin()), right = std::max(0, *(offsets.end() - 1));
    const int frames = (static_cast<int>(x.size()) / kStreams - left - right) / stride;
    Rows y;
    for (int t = 0; t < frames; ++t) {
      for (int s = 0; s < kStreams; ++s) {
        std::vector<double> row;
        for (const int o : offsets) {
          const auto& from = x[static_cast<size_t>((t * stride + left + o) * kStreams + s)];
          row.insert(row.end(), from.begin(), from.end());
        }
        y.push_back(row);
      }
    }
    return y;
  }
  // With peepholes and a projection. `states`: cells and outputs of each stream, read where they go on, and left at the
  // end.
  Rows Lstm(const Rows& x, std::span<const uint8_t> begins, Rows& states) {
    const nn::Parameter& w = Next();
    const nn::Parameter& b = Next();
    const nn::Parameter& recurrent = Next();
    const nn::Parameter& peep = Next();
    const nn::Parameter& projection = Next();
    const auto n = static_cast<size_t>(projection.value.cols());
    const Rows input = Product(w, x);
    Rows y;
    for (size_t row = 0; row < x.size(); ++row) {
      const size_t s = row % kStreams;
      auto& cell = states[2 * s];
      auto& out = states[2 * s + 1];
      if (row < kStreams && (first_piece_ || begins[s] != 0)) {
        cell.assign(n, 0.0);
        out.assign(static_cast<size_t>(projection.value.rows()), 0.0);
      }
      const std::vector<double> back = Product(recurrent, {out})[0];
      std::vector<double> m(n);
      for (size_t c = 0; c < n; ++c) {
        const auto gate = [&](size_t k) {
          return input[row][k * n + c] + back[k * n + c] + At(b, 0, static_cast<int64_t>(k * n + c));
        };
        const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
        const auto at = static_cast<int64_t>(c);
        const double i = sigmoid(gate(0) + At(peep, 0, at) * cell[c]);
        const double f = sigmoid(gate(1) + At(peep, 1, at) * cell[c]);
        cell[c] = f * cell[c] + i * std::tanh(gate(2));
        m[c] = sigmoid(gate(3) + At(peep, 2, at) * cell[c]) * std::tanh(cell[c]);
      }
      out = Product(projection, {m})[0];
      y.push_back(out);
    }
    return y;
  }

 private:
  const nn::Parameter& Next() { return *network_.parameters()[next_++]; }
  double At(const nn::Parameter& p, int64_t r, int64_t c) const {
    return theta_[static_cast<size_t>(p.offset + r * p.value.cols() + c)];
  }
  Rows Product(const nn::Parameter& w, const Rows& x) const {
    Rows y;
    for (const auto& row : x) {
      std::vector<double> out;
      for (int64_t r = 0; r < w.value.rows(); ++r) {
        double sum = 0;
        for (int64_t c = 0; c < w.value.cols(); ++c) sum += At(w, r, c) * row[static_cast<size_t>(c)];
        out.push_back(sum);
      }
      y.push_back(out);
    }
    return y;
  }

  const nn::Network& network_;
  std::span<const double> theta_;
  bool first_piece_;
  size_t next_ = 0;
};

struct Kind {
  const char* toml;
  // Logits from the frames; the LSTM's states go on.
  Rows (*logits)(Reference& net, const Rows& x, std::span<const uint8_t> begins, Rows& states);
};

const Kind kTdnn = {
    "layer = [{type='tdnn', dim=4}, {type='tanh'}, {type='tdnn', dim=4, offsets=[0, 2], stride=2}, {type='tanh'}, "
    "{type='affine'}]",
    [](Reference& net, const Rows& x, std::span<const uint8_t>, Rows&) {
      const Rows below = Reference::Tanh(net.Affine(Reference::Splice(x, {-1, 0, 1})));
      return net.Affine(Reference::Tanh(net.Affine(Reference::Splice(below, {0, 2}, 2))));
    }};
const Kind kLstm = {
    "layer = [{type='tdnn', dim=3, offsets=[0, 1]}, {type='lstm', dim=4, projection=3}, {type='affine'}]",
    [](Reference& net, const Rows& x, std::span<const uint8_t> begins, Rows& states) {
      const Rows below = net.Affine(Reference::Splice(x, {0, 1}));
      return net.Affine(net.Lstm(below, begins, states));
    }};

// A network with values of some size everywhere, and two pieces of streams; the products are of the second one.
struct Sample {
  explicit Sample(const Kind& its_kind) : kind(its_kind), network(Config::Parse(kind.toml, "net"), kIn, kOut, 7) {
    Rng rng(5);
    for (const nn::Parameter* p : network.parameters()) {
      for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] += static_cast<float>(0.3 * rng.Normal());
    }
    network.MarkChanged();
    const int64_t rows = network.time_context().InputFrames(kFrames) * kStreams;
    for (Matrix& piece : pieces) {
      piece = Matrix(rows, kIn);
      for (int64_t i = 0; i < piece.size(); ++i) piece.data()[i] = static_cast<float>(rng.Normal());
    }
    for (size_t n = 0; n < weights.size(); ++n) {
      const size_t frame = n / kStreams, stream = n % kStreams;
      weights[n] = frame < static_cast<size_t>(lengths[stream]) ? 0.5f + 0.25f * static_cast<float>(n % 3) : 0.0f;
    }
    context.sequences = &layout;
    nn::Workspace ws;
    nn::ExecContext first = context;
    const SequenceLayout all_begin{.streams = kStreams, .frames = kFrames};
    first.sequences = &all_begin;
    network.Forward(first, pieces[0], ws);
    states = ws.States();
  }

  std::vector<float> Product(std::span<const float> v) {
    nn::Workspace ws;
    ws.SetStates(states);
    std::vector<float> product(v.size());
    GaussNewton(network).Product(context, pieces[1], weights, v, product, ws);
    return product;
  }

  // The states that the first piece leaves.
  Rows StatesInDouble(std::span<const double> theta) const {
    Rows left(2 * kStreams);
    Reference net(network, theta, true);
    kind.logits(net, InDouble(pieces[0]), begins, left);
    return left;
  }
  std::vector<double> LogitsInDouble(std::span<const double> theta, Rows carried) const {
    Reference net(network, theta, false);
    std::vector<double> all;
    for (const auto& row : kind.logits(net, InDouble(pieces[1]), begins, carried)) {
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }
  static Rows InDouble(const Matrix& m) {
    Rows rows;
    for (int64_t r = 0; r < m.rows(); ++r) rows.emplace_back(m.view().Row(r).begin(), m.view().Row(r).end());
    return rows;
  }

  const Kind& kind;
  nn::Network network;
  Matrix pieces[2];
  std::vector<float> weights = std::vector<float>(kFrames * kStreams);
  std::vector<uint8_t> begins = {0, 1, 0};
  std::vector<int32_t> lengths = {kFrames, kFrames - 1, 2};
  SequenceLayout layout = {.streams = kStreams, .frames = kFrames, .begins = begins, .lengths = lengths};
  nn::ExecContext context;
  std::vector<std::byte> states;
};

// (1/W)·Σ w·Jᵀ·H·J as a whole, J column by column by central differences in double.
std::vector<std::vector<double>> ExplicitMatrix(const Sample& sample) {
  constexpr double kStep = 1e-5;
  const std::vector<double> theta(sample.network.values().begin(), sample.network.values().end());
  const Rows states = sample.StatesInDouble(theta);
  const std::vector<double> logits = sample.LogitsInDouble(theta, states);
  std::vector<std::vector<double>> jacobian;
  for (size_t i = 0; i < theta.size(); ++i) {
    std::vector<double> moved = theta;
    moved[i] += kStep;
    std::vector<double> column = sample.LogitsInDouble(moved, states);
    moved[i] -= 2 * kStep;
    const std::vector<double> down = sample.LogitsInDouble(moved, states);
    for (size_t k = 0; k < column.size(); ++k) column[k] = (column[k] - down[k]) / (2 * kStep);
    jacobian.push_back(column);
  }
  double total = 0;
  for (const float w : sample.weights) total += static_cast<double>(w);
  std::vector<std::vector<double>> curved = jacobian;  // H·J
  for (auto& column : curved) {
    for (size_t n = 0; n < sample.weights.size(); ++n) {
      double sum = 0, mean = 0;
      for (size_t k = n * kOut; k < (n + 1) * kOut; ++k) {
        sum += std::exp(logits[k]);
        mean += std::exp(logits[k]) * column[k];
      }
      for (size_t k = n * kOut; k < (n + 1) * kOut; ++k) {
        column[k] =
            static_cast<double>(sample.weights[n]) / total * std::exp(logits[k]) / sum * (column[k] - mean / sum);
      }
    }
  }
  std::vector<std::vector<double>> matrix(theta.size(), std::vector<double>(theta.size(), 0.0));
  for (size_t i = 0; i < theta.size(); ++i) {
    for (size_t j = 0; j < theta.size(); ++j) {
      for (size_t k = 0; k < logits.size(); ++k) matrix[i][j] += jacobian[i][k] * curved[j][k];
    }
  }
  return matrix;
}

TEST(GaussNewtonOfSequences, EqualsTheExplicitMatrix) {
  for (const Kind* kind : {&kTdnn, &kLstm}) {
    SCOPED_TRACE(kind->toml);
    Sample sample(*kind);
    const std::vector<std::vector<double>> matrix = ExplicitMatrix(sample);
    for (uint64_t seed = 1; seed < 4; ++seed) {
      const std::vector<float> v = Direction(sample.network, seed);
      const std::vector<float> product = sample.Product(v);
      double error = 0, norm = 0;
      for (size_t i = 0; i < v.size(); ++i) {
        double expected = 0;
        for (size_t j = 0; j < v.size(); ++j) expected += matrix[i][j] * static_cast<double>(v[j]);
        error += std::pow(static_cast<double>(product[i]) - expected, 2);
        norm += expected * expected;
      }
      EXPECT_GT(norm, 1e-4);
      EXPECT_LT(std::sqrt(error / norm), 1e-5);
    }
  }
}

// The limit of derivatives that go back in time is for gradients: conjugate gradients need a linear map.
TEST(GaussNewtonOfSequences, IsLinearForVectorsOfAnySize) {
  Sample sample(kLstm);
  const std::vector<float> v = Direction(sample.network, 1);
  const std::vector<float> product = sample.Product(v);
  std::vector<float> longer = v;
  for (float& value : longer) value *= 0x1p20f;
  const std::vector<float> of_longer = sample.Product(longer);
  for (size_t i = 0; i < v.size(); ++i) EXPECT_EQ(of_longer[i], 0x1p20f * product[i]) << i;
}

// Weight 0 is no frame: neither what padding holds nor how much there is of it matters.
TEST(GaussNewtonOfSequences, PaddingCountsForNothing) {
  for (const Kind* kind : {&kTdnn, &kLstm}) {
    SCOPED_TRACE(kind->toml);
    Sample sample(*kind);
    const std::vector<float> v = Direction(sample.network, 1);
    const std::vector<float> product = sample.Product(v);
    const TimeContext context = sample.network.time_context();
    Matrix& x = sample.pieces[1];
    for (int s = 0; s < kStreams; ++s) {
      const int64_t counts = sample.lengths[static_cast<size_t>(s)] * context.stride + context.span();
      for (int64_t t = counts; t < x.rows() / kStreams; ++t) {
        for (float& value : x.view().Row(t * kStreams + s)) value = 50.0f;
      }
    }
    EXPECT_EQ(sample.Product(v), product);
  }
}

}  // namespace
}  // namespace antiphon::optim
