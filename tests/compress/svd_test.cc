#include <gtest/gtest.h>

#include <numeric>

#include "compress/network_parts.h"
#include "compress/statistics.h"
#include "small_model.h"

namespace antiphon::compress {
namespace {

constexpr char kLayer[] = "affine2";

const LayerParts& Part(const std::vector<LayerParts>& parts, const std::string& name) {
  for (const LayerParts& p : parts) {
    if (p.name == name) return p;
  }
  throw InputError("no layer " + name);
}

// B·A of a layer that was split.
DoubleMatrix ProductOf(const nn::Model& model, const std::string& name) {
  const auto parts = TakeApart(model.network);
  return Product(ToDouble(Part(parts, name).weight()), ToDouble(Part(parts, name + "-in").weight()));
}

double SquaredDistance(const DoubleMatrix& a, const DoubleMatrix& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i) sum += (a.data()[i] - b.data()[i]) * (a.data()[i] - b.data()[i]);
  return sum;
}

TEST(Svd, LosesExactlyTheSingularValuesThatItLeavesOut) {
  nn::Model model = SmallModel();
  const DoubleMatrix w = ToDouble(Part(TakeApart(model.network), kLayer).weight());
  Apply("svd", "rank = 12\nmultiple = 1\nlimit = 2.0\nweighted = false\nlayers = ['affine2']", model);
  const std::vector<double> s = Svd(w).s;
  double missing = 0;
  for (size_t i = 12; i < s.size(); ++i) missing += s[i] * s[i];
  EXPECT_NEAR(SquaredDistance(ProductOf(model, kLayer), w), missing, 1e-4 * missing);
}

TEST(Svd, FindsALayerOfLowRankExactly) {
  nn::Model model = SmallModel();
  auto parts = TakeApart(model.network);
  const DoubleMatrix low = Product(ToDouble(RandomMatrix(32, 5, 1)), ToDouble(RandomMatrix(5, 32, 2)));
  for (LayerParts& p : parts) {
    if (p.name == kLayer) p.tensors["weight"] = ToFloat(low);
  }
  model.network = PutTogether(parts, kInputs);
  Apply("svd", "energy = 0.999999\nmultiple = 1\nweighted = false\nlayers = ['affine2']", model);
  const auto after = TakeApart(model.network);
  EXPECT_EQ(Part(after, "affine2-in").weight().rows(), 5);
  EXPECT_LT(SquaredDistance(ProductOf(model, kLayer), low), 1e-6);
}

TEST(Svd, OfFullRankKeepsTheOutputs) {
  nn::Model model = SmallModel();
  const Matrix x = RandomMatrix(9, kInputs, 3);
  const Matrix before = Output(model.network, x);
  Apply("svd", "energy = 1.0\nlimit = 10.0\nweighted = false", model);
  EXPECT_EQ(model.network.num_layers(), SmallModel().network.num_layers() + 3);
  EXPECT_LT(LargestDifference(before, Output(model.network, x)), 1e-5);
}

// Of a layer that it has split already, and of the lower one too.
TEST(Svd, FollowsItself) {
  nn::Model model = SmallModel();
  const Matrix x = RandomMatrix(9, kInputs, 3);
  const Matrix before = Output(model.network, x);
  for (const char* layers : {"['affine2']", "['affine2']", "['affine2', 'affine2-in']"}) {
    Apply("svd", std::string("energy = 1.0\nlimit = 10.0\nweighted = false\nlayers = ") + layers, model);
  }
  std::vector<std::string> names;
  for (const LayerParts& p : TakeApart(model.network)) {
    if (p.name.starts_with("affine2")) names.push_back(p.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"affine2-in-in", "affine2-in", "affine2-in1", "affine2-in2", "affine2"}));
  EXPECT_LT(LargestDifference(before, Output(model.network, x)), 1e-4);
}

TEST(Svd, KeepsTheSizeThatIsAskedFor) {
  for (const double size : {0.3, 0.5, 0.8}) {
    nn::Model model = SmallModel();
    const double before = 32.0 * kInputs + 32 * 32 + kPdfs * 32;
    Apply("svd", "limit = 10.0\nmultiple = 1\nweighted = false\nsize = " + std::to_string(size), model);
    double after = 0;
    for (const LayerParts& p : TakeApart(model.network)) {
      if (IsDense(p)) after += static_cast<double>(p.weight().size());
    }
    EXPECT_LE(after, size * before);
    EXPECT_GT(after, size * before - 64);
  }
}

// Of all matrices of a rank, the weighted decomposition has the least error on the frames.
TEST(Svd, WeightedByFramesKeepsTheirOutputsBetter) {
  FixedFrames frames(kInputs, 400);
  // Inputs that lie in few directions.
  nn::Model plain = SmallModel();
  auto parts = TakeApart(plain.network);
  for (LayerParts& p : parts) {
    if (p.name != "affine1") continue;
    p.tensors["weight"] = ToFloat(Product(ToDouble(RandomMatrix(32, 3, 4)), ToDouble(RandomMatrix(3, kInputs, 5))));
  }
  plain.network = PutTogether(parts, kInputs);
  const nn::Model model = plain.Clone();
  nn::Model weighted = plain.Clone();
  Apply("svd", "rank = 8\nlayers = ['affine2']\nlimit = 2.0\nweighted = false", plain, &frames);
  Apply("svd", "rank = 8\nlayers = ['affine2']\nlimit = 2.0\nweighted = true", weighted, &frames);
  EXPECT_LT(OutputDivergence(model, weighted, frames), 0.8 * OutputDivergence(model, plain, frames));
}

TEST(Svd, SearchesForTheDivergenceThatIsAllowed) {
  FixedFrames frames(kInputs);
  const nn::Model full = SmallModel();
  nn::Model model = SmallModel();
  Apply("svd", "divergence = 0.02\nmultiple = 1\nlimit = 10.0", model, &frames);
  const double reached = OutputDivergence(full, model, frames);
  EXPECT_LE(reached, 0.02);
  EXPECT_GT(reached, 0);
}

}  // namespace
}  // namespace antiphon::compress
