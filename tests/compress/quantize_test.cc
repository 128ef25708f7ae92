#include <gtest/gtest.h>

#include "compress/calibration.h"
#include "compress/fold.h"
#include "compress/network_parts.h"
#include "compress/statistics.h"
#include "nn/parameter_storage.h"
#include "small_model.h"

namespace antiphon::compress {
namespace {

float Low(const nn::InputRange& r) { return -r.zero * r.scale; }
float High(const nn::InputRange& r) { return (255 - r.zero) * r.scale; }

Matrix Values(int64_t n, bool positive) {
  Matrix m = RandomMatrix(1, n, 3);
  for (float& v : m.Row(0)) v = positive ? std::max(v, 0.0f) : v;
  return m;
}

TEST(Histogram, CoversWhatWasSeen) {
  Histogram h;
  const Matrix small = Values(1000, false);
  h.Add(small);
  Matrix outlier(1, 1);
  outlier(0, 0) = 700;  // the bins must grow many times
  h.Add(outlier);
  const nn::InputRange all = h.Range("minmax", 1);
  EXPECT_NEAR(High(all), 700, 3);
  EXPECT_LT(Low(all), -2);
  const nn::InputRange most = h.Range("percentile", 0.998);
  EXPECT_LT(High(most), 5);
  EXPECT_GT(High(most), 1.5);
}

TEST(Histogram, LeavesTheShareOutsideThatWasAskedFor) {
  Histogram h;
  const Matrix x = Values(100000, true);
  h.Add(x);
  const nn::InputRange r = h.Range("percentile", 0.99);
  EXPECT_EQ(r.zero, 0) << "nothing below 0 was seen: all 255 steps are for what is above";
  int64_t beyond = 0;
  for (const float v : x.Row(0)) beyond += v > High(r) ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(beyond), 1000, 40);
}

// A long thin tail costs more steps than it is worth.
TEST(Histogram, CutsATailByDivergence) {
  Histogram h;
  h.Add(Values(200000, true));
  Matrix tail(1, 5);
  for (int64_t i = 0; i < 5; ++i) tail(0, i) = 40.0f + static_cast<float>(i);
  h.Add(tail);
  const nn::InputRange r = h.Range("kl", 1);
  EXPECT_LT(High(r), 25);
  EXPECT_GT(High(r), 2);
}

// The cut is a distance from 0: a side that ends before it stays whole.
TEST(Histogram, CutsTheLongSideAlone) {
  Histogram h;
  Matrix x = Values(200000, true);
  for (int64_t i = 0; i < x.size(); i += 2) x.data()[i] = -0.6f;
  h.Add(x);
  Matrix tail(1, 5);
  for (int64_t i = 0; i < 5; ++i) tail(0, i) = 40.0f + static_cast<float>(i);
  h.Add(tail);
  const nn::InputRange r = h.Range("kl", 1);
  EXPECT_LT(High(r), 25);
  EXPECT_NEAR(Low(r), -0.6, r.scale);
}

TEST(Quantize, ChangesOutputsByLittleAndFileByMuch) {
  FixedFrames frames(kInputs);
  const nn::Model full = SmallModel();
  double last = 0;
  for (const std::string keys : {"input-bits = 0", "", "weight-bits = 4\ninput-bits = 0"}) {
    nn::Model model = SmallModel();
    Apply("quantize", keys, model, &frames);
    const double divergence = OutputDivergence(full, model, frames);
    EXPECT_GT(divergence, last) << keys;
    EXPECT_LT(divergence, keys.find('4') == std::string::npos ? 1e-3 : 0.2) << keys;
    last = divergence;
  }
}

TEST(Quantize, LeavesTheFeaturesUnrounded) {
  FixedFrames frames(kInputs);
  nn::Model model = SmallModel();
  Apply("quantize", "", model, &frames);
  const auto parts = TakeApart(model.network);
  EXPECT_FALSE(parts[1].tensors.contains("input_scale"));
  EXPECT_GT(parts[4].tensors.at("input_scale")(0, 0), 0);
}

TEST(FoldNormalization, LeavesOutputsAsTheyWere) {
  const nn::Model model = SmallModel();
  const Matrix x = RandomMatrix(50, kInputs, 8);
  std::vector<LayerParts> parts = TakeApart(model.network);
  // A low-rank layer has no bias to take the offset: it gets one.
  const size_t last = parts.size() - 1;
  Config config;
  config.Set("dim", std::to_string(parts[last].weight().rows()));
  LayerParts linear = MakeLayer(parts[last], "linear1", "linear", config);
  linear.tensors["weight"] = parts[last].weight();
  parts[last] = std::move(linear);
  const nn::Network before = PutTogether(parts, kInputs);
  EXPECT_EQ(FoldNormalization(before, parts), (std::vector<std::string>{"batch-norm1", "batch-norm2"}));
  const nn::Network after = PutTogether(parts, kInputs);
  EXPECT_EQ(after.num_layers(), before.num_layers() - 2);
  EXPECT_LT(LargestDifference(Output(before, x), Output(after, x)), 1e-4);
}

// A sigmoid between them does not pass a scale on.
TEST(FoldNormalization, LeavesWhatItCannotFold) {
  const nn::Model model = SmallModel("sigmoid");
  std::vector<LayerParts> parts = TakeApart(model.network);
  EXPECT_TRUE(FoldNormalization(model.network, parts).empty());
  EXPECT_EQ(parts.size(), model.network.num_layers());
}

TEST(Circulant, KeepsAMatrixThatIsCirculant) {
  nn::Model model = SmallModel();
  Apply("circulant", "block = 8\nlayers = ['affine2']", model);
  const Matrix c = TakeApart(model.network)[5].weight();
  EXPECT_EQ(c.size(), 32 * 32 / 8);
  nn::Model dense = SmallModel();
  auto parts = TakeApart(dense.network);
  for (int64_t r = 0; r < 32; ++r) {
    for (int64_t s = 0; s < 32; ++s) parts[5].tensors["weight"](r, s) = c(r / 8, s / 8 * 8 + (r - s % 8 + 8) % 8);
  }
  dense.network = PutTogether(parts, kInputs);
  const Matrix x = RandomMatrix(5, kInputs, 1);
  EXPECT_LT(LargestDifference(Output(dense.network, x), Output(model.network, x)), 1e-5);
  Apply("circulant", "block = 8\nlayers = ['affine2']", dense);
  EXPECT_LT(LargestDifference(TakeApart(dense.network)[5].weight(), c), 1e-6);
}

TEST(Multiframe, HeadsBeginAsCopiesAroundTheMiddle) {
  nn::Model model = SmallModel();
  const Matrix x = RandomMatrix(5, kInputs, 1);
  const Matrix before = Output(model.network, x);
  Apply("multiframe", "frames = 4", model);
  EXPECT_EQ(model.first_frame_offset, -1);
  EXPECT_EQ(model.num_pdfs(), kPdfs);
  const Matrix after = Output(model.network, x);
  for (int64_t n = 0; n < 5; ++n) {
    for (int64_t k = 0; k < 4 * kPdfs; ++k) EXPECT_NEAR(after(n, k), before(n, k % kPdfs), 1e-5);
  }
}

}  // namespace
}  // namespace antiphon::compress
