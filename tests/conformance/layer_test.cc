// Every registered layer: its gradients against finite differences, its description, sizes 0 and 1, and bf16 against
// fp32.
#include "nn/layer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "conformance/layer_samples.h"

namespace antiphon::nn {
namespace {

// Whose forward pass is a staircase: tests/nn/rounding_layers_test.cc holds their derivatives against those of what
// they round.
bool IsStraightThrough(const std::string& type) { return type == "quantized-affine" || type == "binary-affine"; }

// Whose gradients are meant to be others than those of its output: tests/nn/side_task_test.cc holds them against what
// they are to be.
bool LearnsOtherwise(const std::string& type) { return type == "gradient-reversal" || type == "side-task"; }

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
      if (!layer->properties().in_place) continue;
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
