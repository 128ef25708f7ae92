#include "pipeline/model_measure.h"

#include <gtest/gtest.h>

#include "base/compute_threads.h"

namespace antiphon::pipeline {
namespace {

int64_t StreamBytes(const std::string& layers, int batch) {
  nn::Model model;
  model.feature_dim = 10;
  model.left_context = model.right_context = 2;
  model.network = nn::Network(Config::Parse("layer = [" + layers + ", {type = 'affine', dim = 7}]", "test"), 50, 7, 1);
  return MeasureScoring(model, batch, "fp32", ComputeThreads()).stream_bytes;
}

// What frames go through together is the thread's, whatever the number of its streams.
TEST(MeasureScoring, AStreamHoldsItsFramesAndWhatLayersRemember) {
  constexpr int64_t kWindow = 5 * 10 * 4, kState = (512 + 512) * 4;
  const std::string hidden = "{type = 'affine', dim = 2000}, {type = 'relu'}";
  const int64_t plain = StreamBytes(hidden, 1);
  EXPECT_EQ(StreamBytes(hidden, 64), plain);
  EXPECT_GE(plain, kWindow);
  EXPECT_LT(plain, kWindow + 2000);
  const int64_t recurrent = StreamBytes("{type = 'lstm', dim = 512}", 8);
  EXPECT_GE(recurrent, kWindow + kState);
  EXPECT_LT(recurrent, kWindow + kState + 2000);
}

}  // namespace
}  // namespace antiphon::pipeline
