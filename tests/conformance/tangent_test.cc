// Every registered layer's derivatives along a direction: against finite differences, and against its own backward
// pass, uᵀ·(J·v) = (Jᵀ·u)ᵀ·v, which second-order training needs to have a symmetric matrix.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "conformance/layer_samples.h"
#include "random_matrix.h"

namespace antiphon::nn {
namespace {

// Second-order training refuses them: forward passes that are staircases, or gradients that are meant to be others than
// those of the outputs; and two layers of compressed models, which are trained on by first-order methods.
const std::set<std::string>& WithoutTangent() {
  static const std::set<std::string> types = {"quantized-affine", "binary-affine",     "sparse-affine",
                                              "circulant-affine", "gradient-reversal", "side-task"};
  return types;
}

// Samples that finite differences of the gradient suite cannot have: kinks and limits of derivatives.
std::vector<std::pair<std::string, std::string>> AllSamples() {
  std::vector<std::pair<std::string, std::string>> all = {
      {"pooling", "channels = 2\nwindow = 2"},
      {"pooling", "channels = 3\nwindow = 3\nstride = 1"},
      {"lstm", "dim = 4\nclip = 1e-4"},
      {"lstm", "dim = 5\nprojection = 3\nclip = 1e-4"},
      {"gru", "dim = 4\nclip = 1e-4"},
      {"residual",
       "layers = [{type = 'splice', offsets = [0, 1]}, {type = 'affine', dim = 12}, {type = 'sigmoid'}, "
       "{type = 'batch-norm', affine = true}]"},
      {"bidirectional", "right = 2\nlayers = [{type = 'affine', dim = 4}, {type = 'tanh'}, {type = 'lstm', dim = 3}]"}};
  for (const auto& [type, samples] : Samples()) {
    for (const std::string& keys : samples) {
      if (!WithoutTangent().contains(type)) all.emplace_back(type, keys);
    }
  }
  return all;
}

double Dot(ConstMatrixView a, ConstMatrixView b) {
  double sum = 0;
  for (int64_t r = 0; r < a.rows(); ++r) {
    for (int64_t c = 0; c < a.cols(); ++c) sum += static_cast<double>(a(r, c)) * static_cast<double>(b(r, c));
  }
  return sum;
}

using testing::RandomMatrix;

// A layer with its parameters laid out as in a network, a minibatch, and a direction in both.
class Case {
 public:
  Case(const std::string& type, const std::string& keys, int streams)
      : what(fmt::format("{} {{{}}}, {} streams", type, keys, streams)), layer(Make(type, keys)) {
    lengths.resize(static_cast<size_t>(streams));
    for (int s = 0; s < streams; ++s) lengths[static_cast<size_t>(s)] = s % 2 == 1 ? kOutputs - 2 : kOutputs;
    layout = {.streams = streams,
              .frames = kOutputs,
              .begins = std::span(begins).first(static_cast<size_t>(streams)),
              .lengths = lengths};
    context.sequences = streams > 0 ? &layout : nullptr;
    context.clip_in_time = false;
    size_t values = 0;
    for (Parameter* p : layer->parameters()) {
      p->offset = static_cast<int64_t>(values);
      values += static_cast<size_t>(p->value.size());
    }
    const Matrix d = RandomMatrix(1, static_cast<int64_t>(values), 11, 0.5);
    direction.assign(d.data(), d.data() + d.size());
    const int64_t rows = layer->time_context().InputFrames(kOutputs) * std::max(1, streams);
    x = Inputs(rows, kInDim, 1);
    dx = RandomMatrix(rows, kInDim, 12, 0.5);
    Forward(Inputs(rows, kInDim, 4), ws);  // of the piece before
    states = ws.States();
  }

  Matrix Forward(const Matrix& input, Workspace& workspace) {
    workspace.SetStates(states);
    Matrix output(layer->OutputRows(context, input.rows()), layer->out_dim());
    layer->Forward(context, input, output, workspace);
    return output;
  }
  // Backward may follow.
  Matrix Tangent(ConstMatrixView along) {
    y = Forward(x, ws);
    Matrix dy(y.rows(), y.cols());
    layer->Tangent(context, along, direction, ws, dy);
    return dy;
  }
  // The output `steps` along the direction.
  Matrix Moved(double steps) {
    Matrix moved{ConstMatrixView(x)};
    for (int64_t i = 0; i < x.size(); ++i)
      moved.data()[i] += static_cast<float>(steps * static_cast<double>(dx.data()[i]));
    std::vector<Matrix> kept;
    for (Parameter* p : layer->parameters()) {
      kept.emplace_back(ConstMatrixView(p->value));
      for (int64_t i = 0; i < p->value.size(); ++i) {
        p->value.data()[i] +=
            static_cast<float>(steps * static_cast<double>(direction[static_cast<size_t>(p->offset + i)]));
      }
      p->MarkChanged();
    }
    Workspace fresh;
    Matrix output = Forward(moved, fresh);
    size_t k = 0;
    for (Parameter* p : layer->parameters()) {
      std::copy_n(kept[k].data(), kept[k].size(), p->value.data());
      p->MarkChanged();
      ++k;
    }
    return output;
  }
  // Whether an output row is no padding.
  bool Counts(int64_t row) const {
    const int64_t streams = context.streams();
    return layout.streams == 0 || row / streams < lengths[static_cast<size_t>(row % streams)];
  }
  // What a backward pass gets: nothing for padding.
  Matrix Cotangent(int64_t rows) const {
    Matrix u = RandomMatrix(rows, layer->out_dim(), 13, 0.5);
    for (int64_t r = 0; r < rows; ++r) {
      if (!Counts(r)) std::fill_n(u.view().Row(r).data(), u.cols(), 0.0f);
    }
    return u;
  }

  static constexpr int kOutputs = 5;
  std::string what;
  std::unique_ptr<Layer> layer;
  std::vector<uint8_t> begins = {1, 0, 1};
  std::vector<int32_t> lengths;
  SequenceLayout layout;
  ExecContext context;
  std::vector<float> direction;
  Matrix x, y, dx;  // ws sees x and y
  std::vector<std::byte> states;
  Workspace ws;
};

template <class Check>
void ForAllCases(Check check) {
  for (const auto& [type, keys] : AllSamples()) {
    for (const int streams : {0, 1, 3}) {
      Case c(type, keys, streams);
      SCOPED_TRACE(c.what);
      check(c);
    }
  }
}

TEST(Tangents, AreKnownOrListedAsMissing) {
  for (const std::string& type : LayerRegistry::Get().Names()) {
    for (const std::string& keys : Samples().at(type)) {
      EXPECT_EQ(Make(type, keys)->has_tangent(), !WithoutTangent().contains(type))
          << "'" << type << "' should have a Tangent, or be listed here as a layer that second-order training refuses";
    }
  }
}

TEST(Tangents, AgreeWithFiniteDifferences) {
  ForAllCases([](Case& c) {
    constexpr double kStep = 0.01;
    const Matrix dy = c.Tangent(c.dx);
    const Matrix a = c.Moved(kStep), b = c.Moved(-kStep), far_a = c.Moved(2 * kStep), far_b = c.Moved(-2 * kStep);
    for (int64_t r = 0; r < dy.rows(); ++r) {
      if (!c.Counts(r)) continue;
      for (int64_t k = 0; k < dy.cols(); ++k) {
        const auto difference = [&](const Matrix& up, const Matrix& down) {
          return static_cast<double>(up(r, k)) - static_cast<double>(down(r, k));
        };
        const double numeric = (8 * difference(a, b) - difference(far_a, far_b)) / (12 * kStep);
        EXPECT_NEAR(static_cast<double>(dy(r, k)), numeric, 2e-4 + 2e-4 * std::abs(numeric)) << r << ", " << k;
      }
    }
  });
}

TEST(Tangents, AreTheAdjointOfBackward) {
  ForAllCases([](Case& c) {
    const Matrix dy = c.Tangent(c.dx);
    const Matrix u = c.Cotangent(dy.rows());
    Matrix du(c.x.rows(), kInDim);
    Collector collected;
    c.layer->Backward(c.context, u, c.ws, du, collected);
    double back = Dot(du, c.dx), scale = std::sqrt(Dot(du, du) * Dot(c.dx, c.dx));
    for (const auto& [p, gradient] : collected.gradients) {
      const ConstMatrixView v(c.direction.data() + p->offset, p->value.rows(), p->value.cols());
      back += Dot(gradient, v);
      scale += std::sqrt(Dot(gradient, gradient) * Dot(v, v));
    }
    EXPECT_GT(scale, 1e-3);
    EXPECT_NEAR(Dot(u, dy), back, 2e-6 * scale);
  });
}

TEST(Tangents, OfUnmovedInputsAreThoseOfZeros) {
  ForAllCases([](Case& c) {
    const Matrix zeros(c.x.rows(), kInDim);
    const Matrix with = c.Tangent(zeros), without = c.Tangent({});
    for (int64_t i = 0; i < with.size(); ++i) EXPECT_NEAR(without.data()[i], with.data()[i], 1e-6);
  });
}

TEST(Tangents, LeaveBackwardAsItIs) {
  ForAllCases([](Case& c) {
    Matrix du[2];
    Collector collected[2];
    for (const int i : {0, 1}) {
      const Matrix y = c.Forward(c.x, c.ws);
      Matrix dy(y.rows(), y.cols());
      if (i == 1) c.layer->Tangent(c.context, c.dx, c.direction, c.ws, dy);
      du[i] = Matrix(c.x.rows(), kInDim);
      c.layer->Backward(c.context, c.Cotangent(y.rows()), c.ws, du[i], collected[i]);
    }
    const auto equal = [](const Matrix& a, const Matrix& b) {
      return std::memcmp(a.data(), b.data(), sizeof(float) * static_cast<size_t>(a.size())) == 0;
    };
    EXPECT_TRUE(equal(du[0], du[1]));
    for (const auto& [p, gradient] : collected[0].gradients) EXPECT_TRUE(equal(gradient, collected[1].gradients.at(p)));
  });
}

TEST(Tangents, TakeNoFramesAndBf16) {
  ForAllCases([](Case& c) {
    const Matrix fp32 = c.Tangent(c.dx);
    c.context.precision = Precision::kBf16;
    const Matrix bf16 = c.Tangent(c.dx);
    for (int64_t i = 0; i < fp32.size(); ++i) EXPECT_NEAR(bf16.data()[i], fp32.data()[i], 0.1);
    c.context.precision = Precision::kFp32;
    c.x = c.dx = Matrix(0, kInDim);
    EXPECT_EQ(c.Tangent(c.dx).rows(), 0);
  });
}

}  // namespace
}  // namespace antiphon::nn
