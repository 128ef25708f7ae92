// Every registered layer: its gradients against finite differences, its description, sizes 0 and 1, and bf16 against
// fp32.
#include "nn/layer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "nn/network.h"

namespace antiphon::nn {
namespace {

// The keys that a layer from 12 values is tried with. A new layer adds its line here.
const std::map<std::string, std::vector<std::string>>& Samples() {
  static const std::map<std::string, std::vector<std::string>> samples = {
      {"affine", {"dim = 7", "dim = 1\nbias-init = 0.5"}},
      {"linear", {"dim = 5", "dim = 4\northonormal = true"}},
      {"relu", {""}},
      {"sigmoid", {""}},
      {"tanh", {""}},
      {"p-norm", {"dim = 4", "dim = 6\np = 3.0", "dim = 12\np = 1.0"}},
      {"renorm", {"", "target-rms = 0.5"}},
      {"batch-norm", {"", "affine = true\ntarget-rms = 0.7"}},
      {"dropout", {"proportion = 0.3", "proportion = 0.5\nper-frame = true"}},
      {"softmax", {""}},
      {"spec-mask", {"feature-dim = 4\nmax-bands = 2\nmax-frames = 1", ""}},
      {"log-softmax", {""}},
      {"fixed-affine", {"dim = 9", ""}},
      {"normalize", {""}},
      {"quantized-affine", {"dim = 7", "dim = 5\nweight-bits = 4\ninput-bits = 0"}},
      {"sparse-affine", {"dim = 7", "dim = 6\nblock-rows = 3\nblock-cols = 4"}},
      {"binary-affine", {"dim = 7", "dim = 5\nbinary-input = true"}},
      {"splice", {"", "offsets = [-3, 0, 1]\nstride = 2", "offsets = [1, 2]"}},
      {"lstm",
       {"dim = 5\nprojection = 3", "dim = 4\npeepholes = false", "dim = 4\nprojection = 3\nshare-gates = true"}},
      {"gru", {"dim = 5"}},
      {"bidirectional",
       {"right = 2\nlayers = [{type = 'gru', dim = 3, clip = 0}]",
        "right = 0\nlayers = [{type = 'lstm', dim = 3, projection = 2, clip = 0}, {type = 'affine', dim = 2}]"}},
      {"convolution",
       {"filters = 4", "channels = 3\nfilters = 2\nwindow = 2\nstride = 2\noffsets = [-1, 0, 2]",
        "channels = 2\nchannels-first = true\nfilters = 3\npad = false\nstride = 2"}},
      {"pooling", {"channels = 2\nwindow = 2\nfunction = 'average'", "channels = 3\nfunction = 'average'\nstride = 1"}},
      {"residual",
       {"scale = 0.5\nlayers = [{type = 'tdnn', dim = 12, offsets = [-1, 0, 2]}, {type = 'sigmoid'}]",
        "layers = [{type = 'gru', dim = 12, clip = 0}]"}},
      {"lhuc", {""}},
      {"frame-affine", {"dim = 4", "dim = 12"}},
      {"gradient-reversal", {"", "most = -1.0\ngamma = 0.0"}},
      {"side-task",
       {"task = 'speaker'\nclasses = 3", "task = 'domain'\nclasses = 2\nhidden-dim = 0\nadversarial = true"}},
      {"circulant-affine", {"dim = 7\nblock = 4", "dim = 6\nblock = 1", "dim = 5\nblock = 12"}},
  };
  return samples;
}

constexpr int kInDim = 12;

// Whose forward pass is a staircase: tests/nn/rounding_layers_test.cc holds their derivatives against those of what
// they round.
bool IsStraightThrough(const std::string& type) { return type == "quantized-affine" || type == "binary-affine"; }

// Whose gradients are meant to be others than those of its output: tests/nn/side_task_test.cc holds them against what
// they are to be.
bool LearnsOtherwise(const std::string& type) { return type == "gradient-reversal" || type == "side-task"; }

std::unique_ptr<Layer> Make(const std::string& type, const std::string& keys) {
  const Config config = Config::Parse("type = \"" + type + "\"\n" + keys + "\n", "sample");
  auto layer = LayerRegistry::Get().Create(type, LayerArgs{kInDim, config, 0, 3});
  // Values that are neither 0 nor equal, in buffers too.
  Rng rng(9);
  for (Parameter* p : layer->parameters()) {
    for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] += 0.2f * static_cast<float>(rng.Normal());
    p->MarkChanged();
  }
  if (!layer->has_statistics()) {
    for (Parameter* p : layer->buffers()) {
      for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] += 0.2f * static_cast<float>(rng.Normal());
      p->MarkChanged();
    }
  }
  return layer;
}

// Asymmetric, and away from the kinks at 0.
Matrix Inputs(int64_t rows, int64_t cols, uint64_t seed) {
  Rng rng(seed);
  Matrix m(rows, cols);
  for (int64_t i = 0; i < m.size(); ++i) {
    const double v = rng.Normal() + 0.3;
    m.data()[i] = static_cast<float>(v + (v < 0 ? -0.25 : 0.25));
  }
  return m;
}

// Keeps what the layer hands over, as dense gradients by parameter.
class Collector : public GradientSink {
 public:
  void TakeFactors(Parameter& weight, Parameter* bias, const GradientFactors& factors) override {
    Matrix& g = gradients[&weight];
    g = Matrix(weight.value.rows(), weight.value.cols());
    FactorProduct(factors, 0, 0.0f, g);
    if (bias == nullptr) return;
    gradients[bias] = Matrix(1, bias->value.cols());
    BiasGradient(factors, 1.0f, 0.0f, gradients[bias]);
  }
  void TakeDense(Parameter& p, ConstMatrixView gradient) override { gradients[&p] = Matrix(gradient); }
  std::map<const Parameter*, Matrix> gradients;
};

// Σ weights ∘ y: a loss whose derivative at y is `weights`.
double Loss(const Layer& layer, const ExecContext& ctx, const Matrix& x, const Matrix& weights) {
  Workspace ws;
  Matrix y(layer.OutputRows(ctx, x.rows()), layer.out_dim());
  layer.Forward(ctx, x, y, ws);
  double sum = 0;
  for (int64_t i = 0; i < y.size(); ++i) {
    sum += static_cast<double>(weights.data()[i]) * static_cast<double>(y.data()[i]);
  }
  return sum;
}

// Fourth-order central difference along one value: truncation h⁴, so that h may be large enough for fp32.
template <class F>
double Derivative(float& value, F loss) {
  const float at = value;
  const double h = 0.03;
  const auto shifted = [&](double steps) {
    value = static_cast<float>(static_cast<double>(at) + steps * h);
    return loss();
  };
  const double d = (8 * (shifted(1) - shifted(-1)) - (shifted(2) - shifted(-2))) / (12 * h);
  value = at;
  return d;
}

void ExpectGradient(double analytic, double numeric, double scale, const std::string& what) {
  EXPECT_NEAR(analytic, numeric, 2e-3 * scale + 1e-4) << what;
}

// Rows are those of as many streams; 0: frames that stand alone.
void CheckGradients(const std::string& type, const std::string& keys, bool training, int streams) {
  auto layer = Make(type, keys);
  const std::vector<uint8_t> begins = {1, 0, 1};
  const SequenceLayout layout{.streams = streams, .begins = std::span(begins).first(static_cast<size_t>(streams))};
  const ExecContext ctx{.precision = Precision::kFp32,
                        .training = training,
                        .seed = 5,
                        .step = 7,
                        .sequences = streams > 0 ? &layout : nullptr};
  const int64_t rows = layer->time_context().InputFrames(streams > 0 ? 5 : 9) * std::max(1, streams);
  Matrix x = Inputs(rows, kInDim, 1);
  Workspace ws;
  Matrix y(layer->OutputRows(ctx, rows), layer->out_dim());
  const Matrix weights = Inputs(y.rows(), layer->out_dim(), 2);
  Matrix dx(rows, kInDim);
  Collector collected;
  layer->Forward(ctx, x, y, ws);
  const std::string what = fmt::format("{} {{{}}}{}, {} streams", type, keys, training ? " training" : "", streams);
  layer->Backward(ctx, weights, ws, dx, collected);
  for (int64_t i = 0; i < x.size(); ++i) {
    const double numeric = Derivative(x.data()[i], [&] { return Loss(*layer, ctx, x, weights); });
    ExpectGradient(static_cast<double>(dx.data()[i]), numeric, std::abs(numeric),
                   what + ": input " + std::to_string(i));
  }
  EXPECT_EQ(collected.gradients.size(), layer->parameters().size()) << what;
  for (Parameter* p : layer->parameters()) {
    const Matrix& gradient = collected.gradients.at(p);
    for (int64_t i = 0; i < p->value.size(); ++i) {
      const double numeric = Derivative(p->value.data()[i], [&] { return Loss(*layer, ctx, x, weights); });
      ExpectGradient(static_cast<double>(gradient.data()[i]), numeric, std::abs(numeric), what + ": " + p->name);
    }
  }
}

TEST(Layers, AllHaveASampleHere) {
  for (const std::string& type : LayerRegistry::Get().Names()) {
    EXPECT_TRUE(Samples().contains(type)) << "add keys for '" << type << "' to Samples()";
  }
}

TEST(Layers, GradientsAgreeWithFiniteDifferences) {
  for (const auto& [type, samples] : Samples()) {
    if (IsStraightThrough(type) || LearnsOtherwise(type)) continue;
    for (const std::string& keys : samples) {
      for (const int streams : {0, 1, 3}) {
        CheckGradients(type, keys, true, streams);
        CheckGradients(type, keys, false, streams);
      }
    }
  }
}

TEST(Layers, BackwardInPlaceIsTheSame) {
  for (const auto& [type, samples] : Samples()) {
    for (const std::string& keys : samples) {
      auto layer = Make(type, keys);
      if (!layer->in_place()) continue;
      const ExecContext ctx{.training = true};
      const Matrix x = Inputs(5, kInDim, 1);
      Matrix y(5, layer->out_dim());
      Matrix apart(5, kInDim);
      Matrix dy = Inputs(5, layer->out_dim(), 2);
      Workspace ws;
      NullGradientSink sink;
      layer->Forward(ctx, x, y, ws);
      layer->Backward(ctx, dy, ws, apart, sink);
      layer->Backward(ctx, dy, ws, dy, sink);
      EXPECT_EQ(std::memcmp(dy.data(), apart.data(), sizeof(float) * static_cast<size_t>(dy.size())), 0) << type;
    }
  }
}

TEST(Layers, TakeNoFramesAndOneFrame) {
  for (const auto& [type, samples] : Samples()) {
    for (const std::string& keys : samples) {
      for (const int64_t n : {0, 1}) {
        for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
          auto layer = Make(type, keys);
          const ExecContext ctx{.precision = precision, .training = true};
          const Matrix x = Inputs(n, kInDim, 1);
          Matrix y(layer->OutputRows(ctx, n), layer->out_dim());
          Matrix dx(n, kInDim);
          Workspace ws;
          Collector sink;
          layer->Forward(ctx, x, y, ws);
          layer->Backward(ctx, y, ws, dx, sink);
          for (int64_t i = 0; i < dx.size(); ++i) EXPECT_TRUE(std::isfinite(dx.data()[i])) << type;
          for (const auto& [p, g] : sink.gradients) {
            for (int64_t i = 0; i < g.size(); ++i) EXPECT_TRUE(std::isfinite(g.data()[i])) << type;
          }
        }
      }
    }
  }
}

TEST(Layers, RefuseWrongShapesBeforeWriting) {
  for (const auto& [type, samples] : Samples()) {
    auto layer = Make(type, samples[0]);
    const int64_t rows = layer->time_context().InputFrames(3);
    Matrix y(3, layer->out_dim());
    Workspace ws;
    EXPECT_THROW(layer->Forward({}, Matrix(rows, kInDim + 1), y, ws), ShapeError) << type;
    EXPECT_THROW(layer->Forward({}, Matrix(rows - layer->time_context().stride, kInDim), y, ws), ShapeError) << type;
    for (int64_t i = 0; i < y.size(); ++i) EXPECT_EQ(y.data()[i], 0) << type;
  }
}

TEST(Layers, AreBuiltAgainFromTheirDescription) {
  for (const auto& [type, samples] : Samples()) {
    for (const std::string& keys : samples) {
      auto layer = Make(type, keys);
      auto again = Make(type, layer->ToConfig().ToToml());
      EXPECT_EQ(again->ToConfig().ToToml(), layer->ToConfig().ToToml());
      ASSERT_EQ(again->parameters().size(), layer->parameters().size());
      for (size_t i = 0; i < layer->parameters().size(); ++i) {
        EXPECT_EQ(again->parameters()[i]->value.size(), layer->parameters()[i]->value.size());
      }
      EXPECT_EQ(again->buffers().size(), layer->buffers().size());
    }
  }
}

TEST(Layers, Bf16IsCloseToFp32) {
  for (const auto& [type, samples] : Samples()) {
    for (const std::string& keys : samples) {
      auto layer = Make(type, keys);
      const int64_t rows = layer->time_context().InputFrames(8);
      const Matrix x = Inputs(rows, kInDim, 1);
      Matrix y[2], dx[2];
      const Matrix dy = Inputs(8, layer->out_dim(), 2);
      Collector sinks[2];
      for (const int i : {0, 1}) {
        const ExecContext ctx{.precision = i == 0 ? Precision::kFp32 : Precision::kBf16};
        y[i] = Matrix(8, layer->out_dim());
        dx[i] = Matrix(rows, kInDim);
        Workspace ws;
        layer->Forward(ctx, x, y[i], ws);
        layer->Backward(ctx, dy, ws, dx[i], sinks[i]);
      }
      for (int64_t i = 0; i < y[0].size(); ++i) EXPECT_NEAR(y[1].data()[i], y[0].data()[i], 0.06) << type;
      for (int64_t i = 0; i < dx[0].size(); ++i) EXPECT_NEAR(dx[1].data()[i], dx[0].data()[i], 0.06) << type;
      for (const auto& [p, g] : sinks[0].gradients) {
        for (int64_t i = 0; i < g.size(); ++i)
          EXPECT_NEAR(sinks[1].gradients.at(p).data()[i], g.data()[i], 0.3) << type;
      }
    }
  }
}

}  // namespace
}  // namespace antiphon::nn
