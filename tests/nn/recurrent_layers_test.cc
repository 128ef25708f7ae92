// Layers that carry a state from frame to frame: what they compute, in both directions, and as PyTorch computes it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "nn/network.h"
#include "nn/sequence_networks.h"
#include "oracle.h"
#include "random_matrix.h"
#include "temporary_folder.h"

namespace antiphon::nn {
namespace {

using testing::RandomMatrix;

TEST(Bidirectional, SeesAsManyComingFramesAsItSays) {
  Network network = BuildSequence("{type='bidirectional', right=3, layers=[{type='gru', dim=4}]}", 3);
  constexpr int kFrames = 12, kAt = 4;
  Matrix x = RandomMatrix(kFrames, 3, 5);
  Workspace ws;
  const Matrix before(ConstMatrixView(network.Forward({}, x, ws)));
  ASSERT_EQ(before.rows(), kFrames - 3);
  // Which outputs change with one frame: half of them look back, half ahead.
  x(kAt + 3, 1) += 1;
  const ConstMatrixView after = network.Forward({}, x, ws);
  for (int t = 0; t < before.rows(); ++t) {
    EXPECT_EQ(before(t, 0) != after(t, 0), t >= kAt + 3) << t;
    EXPECT_EQ(before(t, 4) != after(t, 4), t >= kAt && t <= kAt + 3) << t;
  }
}

TEST(Bidirectional, IsTwoChainsOneOfThemBackwards) {
  Network both = BuildSequence("{type='bidirectional', right=2, layers=[{type='gru', dim=4}]}", 3);
  Network one = BuildSequence("{type='gru', dim=4}", 3);
  const auto take = [&](const std::string& chain) {
    const std::span<Parameter* const> from = both.parameters();
    const size_t first = chain == "past" ? 0 : from.size() / 2;
    for (size_t i = 0; i < from.size() / 2; ++i) {
      EXPECT_NE(from[first + i]->name.find(chain), std::string::npos) << from[first + i]->name;
      std::copy_n(from[first + i]->value.data(), from[first + i]->value.size(), one.parameters()[i]->value.data());
      one.parameters()[i]->MarkChanged();
    }
  };
  const Matrix x = RandomMatrix(6, 3, 5);
  Workspace ws, ws_of_one;
  const ConstMatrixView y = both.Forward({}, x, ws);
  take("past");
  const Matrix past(ConstMatrixView(one.Forward({}, x.view().Rows(0, 4), ws_of_one)));
  take("future");
  for (int t = 0; t < 4; ++t) {
    Matrix window(3, 3);
    for (int k = 0; k < 3; ++k) std::copy_n(x.Row(t + 2 - k).data(), 3, window.Row(k).data());
    const ConstMatrixView future = one.Forward({}, window, ws_of_one);
    for (int c = 0; c < 4; ++c) {
      EXPECT_NEAR(y(t, c), past(t, c), 1e-6);
      EXPECT_NEAR(y(t, 4 + c), future(2, c), 1e-6);
    }
  }
}

TEST(Bidirectional, RefusesLayersThatCannotRunBothWays) {
  for (const std::string layers : {"[{type='affine', dim=4}]", "[{type='tdnn', dim=4}, {type='gru', dim=4}]",
                                   "[{type='gru', dim=4}, {type='batch-norm'}]", "[]"}) {
    EXPECT_THROW(BuildSequence("{type='bidirectional', layers=" + layers + "}", 3), UsageError) << layers;
  }
}

// Sums gradients like a DenseGradientSink, by name.
class ByName : public GradientSink {
 public:
  void TakeFactors(Parameter& weight, Parameter* bias, const GradientFactors& factors) override {
    gradients[weight.name] = Matrix(weight.value.rows(), weight.value.cols());
    FactorProduct(factors, 0, 0.0f, gradients[weight.name]);
    if (bias == nullptr) return;
    gradients[bias->name] = Matrix(1, bias->value.cols());
    BiasGradient(factors, 1.0f, 0.0f, gradients[bias->name]);
  }
  void TakeDense(Parameter& p, ConstMatrixView gradient) override { gradients[p.name] = Matrix(gradient); }
  std::map<std::string, Matrix> gradients;
};

// The reference is a layer whose four matrices are copies of the one.
TEST(Lstm, SharedGatesAreFourTiedCopies) {
  constexpr int kIn = 3, kCells = 5;
  Network shared = BuildSequence("{type='lstm', dim=5, projection=4, share-gates=true}", kIn);
  Network whole = BuildSequence("{type='lstm', dim=5, projection=4}", kIn);
  EXPECT_EQ(Find(shared, "lstm1.weight").value.size(), kIn * kCells);
  EXPECT_EQ(Find(whole, "lstm1.weight").value.size(), 4 * kIn * kCells);
  for (Parameter* p : whole.parameters()) {
    const Parameter& from = Find(shared, p->name);
    for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] = from.value.data()[i % from.value.size()];
  }
  whole.MarkChanged();
  const Matrix x = RandomMatrix(12, kIn, 1), dy = RandomMatrix(12, 4, 2);
  Workspace a, b;
  ExpectNear(shared.Forward({}, x, a), whole.Forward({}, x, b), 1e-6, "output");
  ByName shared_sink, whole_sink;
  ExpectNear(shared.Backward({}, dy, a, shared_sink, true), whole.Backward({}, dy, b, whole_sink, true), 1e-5, "dx");
  const Matrix& tied = shared_sink.gradients.at("lstm1.weight");
  const Matrix& untied = whole_sink.gradients.at("lstm1.weight");
  for (int64_t i = 0; i < tied.size(); ++i) {
    float sum = 0;
    for (int64_t gate = 0; gate < 4; ++gate) sum += untied.data()[i + gate * tied.size()];
    EXPECT_NEAR(tied.data()[i], sum, 1e-5);
  }
  ExpectNear(shared_sink.gradients.at("lstm1.recurrent"), whole_sink.gradients.at("lstm1.recurrent"), 1e-5, "R");
  ExpectNear(shared_sink.gradients.at("lstm1.bias"), whole_sink.gradients.at("lstm1.bias"), 1e-5, "b");
}

TEST(Lstm, AProjectionByTheIdentityIsNone) {
  Network projected = BuildSequence("{type='lstm', dim=4, projection=4}", 3);
  Network plain = BuildSequence("{type='lstm', dim=4}", 3);
  for (Parameter* p : plain.parameters()) {
    const Parameter& from = Find(projected, p->name);
    std::copy_n(from.value.data(), from.value.size(), p->value.data());
  }
  Parameter& projection = Find(projected, "lstm1.projection");
  for (int64_t r = 0; r < 4; ++r) {
    for (int64_t c = 0; c < 4; ++c) projection.value(r, c) = r == c ? 1.0f : 0.0f;
  }
  plain.MarkChanged();
  projected.MarkChanged();
  const Matrix x = RandomMatrix(9, 3, 1);
  Workspace a, b;
  ExpectNear(projected.Forward({}, x, a), plain.Forward({}, x, b), 1e-6, "output");
}

TEST(Lstm, ClippingLimitsWhatGoesBackInTimeOnly) {
  Network free = BuildSequence("{type='lstm', dim=4, projection=3, clip=0}", 3);
  Network clipped = BuildSequence("{type='lstm', dim=4, projection=3, clip=1e-4}", 3);
  clipped.CopyFrom(free);
  const Matrix x = RandomMatrix(2, 3, 1), dy = RandomMatrix(2, 3, 2);
  Workspace a, b;
  free.Forward({}, x, a);
  clipped.Forward({}, x, b);
  ByName sink;
  const Matrix d_free(ConstMatrixView(free.Backward({}, dy, a, sink, true)));
  const Matrix d_clipped(ConstMatrixView(clipped.Backward({}, dy, b, sink, true)));
  ExpectNear(d_free.view().Rows(1, 1), d_clipped.view().Rows(1, 1), 1e-6, "the last frame");
  double difference = 0;
  for (int64_t c = 0; c < 3; ++c) difference += std::abs(static_cast<double>(d_free(0, c) - d_clipped(0, c)));
  EXPECT_GT(difference, 1e-4);
}

// PyTorch's layers with the same weights: outputs, and gradients of all weights for the loss Σ y·dy. Arguments: for
// each layer its kind, projection and a file of values.
constexpr const char* kTorch = R"(
import sys, torch
n_in, cells, frames, streams = 3, 5, 7, 2
def run(kind, proj, path):
    values = iter([float(v) for v in open(path)])
    def take(*shape):
        n = 1
        for s in shape: n *= s
        return torch.tensor([next(values) for _ in range(n)], dtype=torch.float64).reshape(*shape)
    gates = 4 if kind == 'lstm' else 3
    out = proj or cells
    layer = (torch.nn.LSTM(n_in, cells, proj_size=proj) if kind == 'lstm' else torch.nn.GRU(n_in, cells)).double()
    with torch.no_grad():
        layer.weight_ih_l0.copy_(take(gates * cells, n_in))
        layer.bias_ih_l0.copy_(take(gates * cells))
        layer.weight_hh_l0.copy_(take(gates * cells, out))
        if kind == 'gru': layer.bias_hh_l0.copy_(take(gates * cells))
        else: layer.bias_hh_l0.zero_()
        if proj: layer.weight_hr_l0.copy_(take(proj, cells))
    x = take(frames, streams, n_in).requires_grad_()
    dy = take(frames, streams, out)
    y, _ = layer(x)
    (y * dy).sum().backward()
    result = [y, x.grad, layer.weight_ih_l0.grad, layer.bias_ih_l0.grad, layer.weight_hh_l0.grad]
    if kind == 'gru': result.append(layer.bias_hh_l0.grad)
    if proj: result.append(layer.weight_hr_l0.grad)
    for tensor in result:
        for v in tensor.detach().flatten().tolist(): print(repr(v))
for i in range(1, len(sys.argv), 3): run(sys.argv[i], int(sys.argv[i + 1]), sys.argv[i + 2])
)";

constexpr int kStreams = 2;

Matrix TorchInput() { return RandomMatrix(7 * kStreams, 3, 1); }
Matrix TorchDerivative(const Network& net) { return RandomMatrix(7 * kStreams, net.out_dim(), 2); }

void WriteValues(const Network& net, const std::filesystem::path& path) {
  std::ofstream file(path);
  file.precision(9);
  const auto write = [&](ConstMatrixView m) {
    for (int64_t i = 0; i < m.size(); ++i) file << m.data()[i] << "\n";
  };
  for (const Parameter* p : net.parameters()) write(p->value);
  write(TorchInput());
  write(TorchDerivative(net));
}

void Compare(Network& net, std::istream& expected) {
  const auto compare = [&](ConstMatrixView m, const std::string& what) {
    for (int64_t r = 0; r < m.rows(); ++r) {
      for (const float found : m.Row(r)) {
        double v = NAN;
        expected >> v;
        ASSERT_NEAR(found, v, 1e-5 * std::max(1.0, std::abs(v))) << what;
      }
    }
  };
  const SequenceLayout layout{.streams = kStreams};
  ExecContext ctx;
  ctx.sequences = &layout;
  const Matrix x = TorchInput(), dy = TorchDerivative(net);
  Workspace ws;
  ByName sink;
  compare(net.Forward(ctx, x, ws), "y");
  compare(net.Backward(ctx, dy, ws, sink, true), "dx");
  for (const Parameter* p : net.parameters()) compare(sink.gradients.at(p->name), p->name);
}

TEST(RecurrentLayers, AgreeWithPyTorch) {
  const auto python = OraclePython("torch");
  if (!python) GTEST_SKIP() << "no Python with torch";
  const std::pair<const char*, const char*> cases[] = {
      {"lstm 4", "{type='lstm', dim=5, projection=4, peepholes=false, clip=0}"},
      {"lstm 0", "{type='lstm', dim=5, peepholes=false, clip=0}"},
      {"gru 0", "{type='gru', dim=5, clip=0}"}};
  const ::antiphon::testing::TemporaryFolder folder;
  std::string arguments;
  for (const auto& [kind, layer] : cases) {
    const std::filesystem::path path = folder / kind;
    WriteValues(BuildSequence(layer, 3), path);
    arguments += fmt::format(" {} '{}'", kind, path.string());
  }
  const auto output = RunPython(*python, kTorch, arguments);
  ASSERT_TRUE(output.has_value());
  std::istringstream expected(*output);
  for (const auto& [kind, layer] : cases) {
    Network net = BuildSequence(layer, 3);
    Compare(net, expected);
  }
}

}  // namespace
}  // namespace antiphon::nn
