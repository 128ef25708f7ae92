// Layers that take fewer multiplications than their definition (minimal filtering), against ones that do not.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "base/compute_threads.h"
#include "nn/layers/filtered_convolution.h"
#include "nn/network.h"
#include "nn/shifted_product.h"
#include "random_matrix.h"

namespace antiphon::nn {
namespace {

using testing::RandomMatrix;

Network BuildFiltered(const std::string& layers, int in_dim) {
  return {Config::Parse("layer = [" + layers + "]", "test"), in_dim, 0, 1};
}

// Sums that differ in their rounding alone.
void ExpectSame(ConstMatrixView a, ConstMatrixView b, const std::string& what) {
  ASSERT_EQ(a.rows(), b.rows()) << what;
  ASSERT_EQ(a.cols(), b.cols()) << what;
  double squares = 0;
  for (int64_t r = 0; r < b.rows(); ++r) {
    for (const float v : b.Row(r)) squares += static_cast<double>(v) * static_cast<double>(v);
  }
  const double tolerance = 3e-5 * std::sqrt(squares / static_cast<double>(std::max<int64_t>(b.size(), 1)));
  for (int64_t r = 0; r < a.rows(); ++r) {
    for (int64_t c = 0; c < a.cols(); ++c) ASSERT_NEAR(a(r, c), b(r, c), tolerance) << what << " " << r << " " << c;
  }
}

// A dense gradient, and whether the layers knew a shorter way to it.
class Watching : public DenseGradientSink {
 public:
  using DenseGradientSink::DenseGradientSink;
  void TakeFactors(Parameter& weight, Parameter* bias, const GradientFactors& factors) override {
    shifted = shifted || factors.shifted != nullptr;
    DenseGradientSink::TakeFactors(weight, bias, factors);
  }
  bool shifted = false;
};

struct Result {
  Matrix y, dx, gradient;
  bool shifted = false;
};

Result RunNet(Network& net, const Matrix& x, int streams, Precision precision = Precision::kFp32) {
  const SequenceLayout layout{.streams = streams};
  ExecContext ctx;
  ctx.sequences = &layout;
  ctx.precision = precision;
  Workspace ws;
  Result result;
  result.y = Matrix(ConstMatrixView(net.Forward(ctx, x, ws)));
  result.gradient = Matrix(1, static_cast<int64_t>(net.num_values()));
  Watching sink({result.gradient.data(), net.num_values()});
  const Matrix dy = RandomMatrix(result.y.rows(), result.y.cols(), 9);
  result.dx = Matrix(ConstMatrixView(net.Backward(ctx, dy, ws, sink, true)));
  result.shifted = sink.shifted;
  return result;
}

// The same layers with something between splice and product, so that the product knows nothing of shifts.
std::string Apart(const std::string& splice, const std::string& product) {
  return splice + ", {type='dropout', proportion=0}, " + product;
}

struct Shape {
  const char* splice;
  int streams;
  int frames;  // that come out
  bool shifted;
};

class ShiftedProducts : public ::testing::TestWithParam<Shape> {};

TEST_P(ShiftedProducts, AreThePlainOnes) {
  const Shape& shape = GetParam();
  constexpr int kIn = 256, kOut = 272;
  const std::string product = fmt::format("{{type='affine', dim={}, bias-init=0.5}}, {{type='sigmoid'}}", kOut);
  Network net = BuildFiltered(fmt::format("{}, {}", shape.splice, product), kIn);
  Network plain = BuildFiltered(Apart(shape.splice, product), kIn);
  plain.CopyFrom(net);
  const Matrix x = RandomMatrix(net.time_context().InputFrames(shape.frames) * shape.streams, kIn, 3);
  const Result a = RunNet(net, x, shape.streams), b = RunNet(plain, x, shape.streams);
  EXPECT_EQ(a.shifted, shape.shifted);
  EXPECT_FALSE(b.shifted);
  ExpectSame(a.y, b.y, "y");
  ExpectSame(a.dx, b.dx, "dx");
  ExpectSame(a.gradient, b.gradient, "gradient");
  EXPECT_FALSE(RunNet(net, x, shape.streams, Precision::kBf16).shifted);
}

// Frames in all positions of a run of four times the shift: none left, few that stand alone, many that make a last
// group short of one, two or three.
INSTANTIATE_TEST_SUITE_P(Shapes, ShiftedProducts,
                         ::testing::Values(Shape{"{type='splice', offsets=[-1, 0, 1]}", 32, 40, true},
                                           Shape{"{type='splice', offsets=[-1, 0, 1]}", 32, 41, true},
                                           Shape{"{type='splice', offsets=[-1, 0, 1]}", 32, 42, true},
                                           Shape{"{type='splice', offsets=[-1, 0, 1]}", 32, 43, true},
                                           Shape{"{type='splice', offsets=[-6, -3, 0]}", 24, 48, true},
                                           Shape{"{type='splice', offsets=[-6, -3, 0]}", 24, 49, true},
                                           Shape{"{type='splice', offsets=[-3, 0, 3]}", 24, 53, true},
                                           Shape{"{type='splice', offsets=[-3, 0, 3]}", 24, 54, true},
                                           Shape{"{type='splice', offsets=[-3, 0, 3]}", 24, 56, true},
                                           Shape{"{type='splice', offsets=[-3, 0, 3]}", 24, 58, true},
                                           Shape{"{type='splice', offsets=[-2, 0, 2], stride=2}", 32, 45, true},
                                           Shape{"{type='splice', offsets=[-3, 0, 3]}", 1, 1501, true},
                                           Shape{"{type='splice', offsets=[0, 700]}", 1, 6000, true},
                                           Shape{"{type='splice', offsets=[0, 3]}", 64, 120, true},
                                           Shape{"{type='splice', offsets=[0, 3]}", 64, 125, true},
                                           // What the way is not for: uneven, backward, too many, too few rows.
                                           Shape{"{type='splice', offsets=[-1, 0, 2]}", 32, 40, false},
                                           Shape{"{type='splice', offsets=[1, 0, -1]}", 32, 40, false},
                                           Shape{"{type='splice', offsets=[0, 0, 0]}", 32, 40, false},
                                           Shape{"{type='splice', offsets=[-1, 0, 1], stride=2}", 32, 40, false},
                                           Shape{"{type='splice', offsets=[-2, -1, 0, 1, 2]}", 32, 40, false},
                                           Shape{"{type='splice', offsets=[-1, 0, 1]}", 2, 20, false},
                                           Shape{"{type='splice', offsets=[-900, 0, 900]}", 1, 1300, false}));

void ExpectSameBitsForAnyTeam(Network& net, const Matrix& x, int streams) {
  const int before = ComputeThreads();
  SetComputeThreads(1);
  const Result one = RunNet(net, x, streams);
  for (const int threads : {2, 16}) {
    SetComputeThreads(threads);
    const Result many = RunNet(net, x, streams);
    const auto equal = [](const Matrix& a, const Matrix& b) {
      return std::equal(a.data(), a.data() + a.size(), b.data());
    };
    EXPECT_TRUE(equal(many.y, one.y)) << threads;
    EXPECT_TRUE(equal(many.dx, one.dx)) << threads;
    EXPECT_TRUE(equal(many.gradient, one.gradient)) << threads;
  }
  SetComputeThreads(before);
}

// Products of great depth have other bits for other numbers of rows.
TEST(FilteredProducts, AreTheSameForAnyNumberOfThreads) {
  Network tdnn = BuildFiltered("{type='splice', offsets=[-1, 0, 1]}, {type='affine', dim=1024}", 1024);
  for (const int frames : {24, 33}) {
    const Matrix x = RandomMatrix(tdnn.time_context().InputFrames(frames) * 32, 1024, 3);
    EXPECT_TRUE(RunNet(tdnn, x, 32).shifted);
    ExpectSameBitsForAnyTeam(tdnn, x, 32);
  }
  Network convolution = BuildFiltered("{type='convolution', channels=32, filters=64, offsets=[-1, 0, 1]}", 32 * 20);
  ExpectSameBitsForAnyTeam(convolution, RandomMatrix(35 * 8, 32 * 20, 4), 8);
}

// What the header says of frames of other sizes: the largest of a group is what the others are rounded by.
TEST(FilteredProducts, AreRoundedByTheLargestFrameOfTheGroup) {
  constexpr int kIn = 256, kStreams = 32;
  const std::string splice = "{type='splice', offsets=[-1, 0, 1]}", product = "{type='linear', dim=272}";
  Network net = BuildFiltered(splice + ", " + product, kIn), plain = BuildFiltered(Apart(splice, product), kIn);
  plain.CopyFrom(net);
  Matrix x = RandomMatrix(42 * kStreams, kIn, 3);
  for (int64_t r = 0; r < x.rows(); ++r) {
    const float size = r / kStreams == 20 ? 1e4f : 1.0f;  // one loud frame, of which outputs 18 to 20 know
    for (float& v : x.Row(r)) v *= size;
  }
  const Result a = RunNet(net, x, kStreams), b = RunNet(plain, x, kStreams);
  EXPECT_TRUE(a.shifted);
  double near = 0, far = 0;
  for (int64_t r = 0; r < a.y.rows(); ++r) {
    const bool in_its_group = r / kStreams / 4 == 4 || r / kStreams / 4 == 5;
    for (int64_t c = 0; c < a.y.cols(); ++c) {
      double& most = in_its_group ? near : far;
      most = std::max(most, std::abs(static_cast<double>(a.y(r, c) - b.y(r, c))));
    }
  }
  EXPECT_LT(near, 1e4 * 3e-5);
  EXPECT_LT(far, 3e-5);
}

// The definition, sum by sum; the derivatives are those of Σ y·dy.
struct ByDefinition {
  int channels, filters, height, out_height, first;
  std::vector<int> offsets;

  template <class Body>
  void ForTerms(int64_t rows, int streams, int left, Body body) const {
    for (int64_t r = 0; r < rows; ++r) {
      for (int h = 0; h < out_height; ++h) {
        for (size_t k = 0; k < offsets.size(); ++k) {
          for (int j = 0; j < 3; ++j) {
            const int at = first + h + j;
            if (at < 0 || at >= height) continue;
            const int64_t from = r + int64_t{left + offsets[k]} * streams;
            for (int f = 0; f < filters; ++f) {
              for (int c = 0; c < channels; ++c) {
                body(r, h * filters + f, f, (static_cast<int64_t>(k) * 3 + j) * channels + c, from, at * channels + c);
              }
            }
          }
        }
      }
    }
  }
};

TEST(FilteredConvolution, IsWhatItsDefinitionSays) {
  for (const auto& [height, pad, offsets] : std::vector<std::tuple<int, bool, std::vector<int>>>{
           {8, true, {0}}, {9, true, {-1, 0, 1}}, {10, true, {-1, 2}}, {11, false, {0, 1}}, {4, true, {-2, 0, 2}}}) {
    constexpr int kChannels = 32, kFilters = 40, kStreams = 3, kFrames = 5;
    const std::string what = fmt::format("height {} pad {} offsets {}", height, pad, fmt::join(offsets, ","));
    Network net = BuildFiltered(fmt::format("{{type='convolution', channels={}, filters={}, pad={}, offsets=[{}]}}",
                                            kChannels, kFilters, pad, fmt::join(offsets, ", ")),
                                kChannels * height);
    Parameter& weight = *net.parameters()[0];
    Parameter& bias = *net.parameters()[1];
    for (int f = 0; f < kFilters; ++f) bias.value(0, f) = static_cast<float>(f);
    net.MarkChanged();
    const TimeContext context = net.time_context();
    const Matrix x = RandomMatrix(context.InputFrames(kFrames) * kStreams, net.in_dim(), 2);
    const ByDefinition terms{kChannels, kFilters, height, pad ? height : height - 2, pad ? -1 : 0, offsets};
    Matrix y(kFrames * kStreams, net.out_dim()), dx(x.rows(), x.cols()),
        gradient(1, static_cast<int64_t>(net.num_values()));
    for (int64_t r = 0; r < y.rows(); ++r) {
      for (int64_t c = 0; c < y.cols(); ++c) y(r, c) = bias.value(0, c % kFilters);
    }
    const Matrix dy = RandomMatrix(y.rows(), y.cols(), 9);  // as RunNet draws it
    MatrixView dw(gradient.data() + weight.offset, weight.value.rows(), weight.value.cols());
    terms.ForTerms(y.rows(), kStreams, context.left,
                   [&](int64_t r, int64_t out, int64_t f, int64_t w, int64_t from, int64_t in) {
                     y(r, out) += weight.value(f, w) * x(from, in);
                     dx(from, in) += weight.value(f, w) * dy(r, out);
                     dw(f, w) += x(from, in) * dy(r, out);
                   });
    for (int64_t r = 0; r < y.rows(); ++r) {
      for (int64_t c = 0; c < y.cols(); ++c) gradient(0, bias.offset + c % kFilters) += dy(r, c);
    }
    EXPECT_TRUE(FilteredConvolution::Pays(ConvolutionGeometry(
        {.channels = kChannels, .filters = kFilters, .pad = pad, .offsets = offsets}, kChannels * height)))
        << what;
    const Result result = RunNet(net, x, kStreams);
    ExpectSame(result.y, y, what + " y");
    ExpectSame(result.dx, dx, what + " dx");
    ExpectSame(result.gradient, gradient, what + " gradient");
  }
}

}  // namespace
}  // namespace antiphon::nn
