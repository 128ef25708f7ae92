#include "train/rate_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"

namespace antiphon::train {
namespace {

using ::testing::HasSubstr;

// A loss that falls fastest at a rate of 0.1, is lowest at about 1 and then explodes.
RateCurve Curve() {
  RateCurve curve;
  for (int i = 0; i <= 120; ++i) {
    const double rate = std::pow(10.0, -4 + 0.05 * i);
    const double loss = 2 - std::tanh(3 * (std::log10(rate) + 1)) + std::pow(rate / 4, 4);
    curve.points.push_back({rate, loss, loss});
  }
  curve.exploded = true;
  return curve;
}

TEST(RateCurves, AreReadAtTheirSteepestAndLowestPoint) {
  RateCurve curve = Curve();
  Interpret(curve);
  ASSERT_TRUE(curve.steepest && curve.lowest);
  EXPECT_NEAR(std::log10(*curve.steepest), -1, 0.11);
  EXPECT_GT(*curve.lowest, 0.4);
  EXPECT_LT(*curve.lowest, 4);
  EXPECT_EQ(curve.remark, "");
}

TEST(RateCurves, ThatLackSomethingSayWhat) {
  RateCurve curve = Curve();
  curve.points.resize(50);
  curve.exploded = false;
  Interpret(curve);
  EXPECT_THAT(curve.remark, HasSubstr("a higher one"));
  curve.points.resize(5);
  Interpret(curve);
  EXPECT_FALSE(curve.suggestion());
  EXPECT_THAT(curve.remark, HasSubstr("exploded at once"));
  curve = Curve();
  curve.points.erase(curve.points.begin(), curve.points.begin() + 100);
  Interpret(curve);
  EXPECT_FALSE(curve.suggestion());
  EXPECT_THAT(curve.remark, HasSubstr("never fell"));
}

TEST(RateSearches, FindARateThatLearnsAndTouchNothing) {
  const testing::TemporaryFolder folder;
  MakeSyntheticStore(folder / "store");
  TrainingRequest request;
  request.store = (folder / "store").string();
  request.out = (folder / "run").string();
  request.network = Config::Parse(
      "[[layer]]\ntype = 'affine'\ndim = 24\n[[layer]]\ntype = 'relu'\n[[layer]]\ntype = 'affine'\n", "network");
  request.train = SmallOptions();
  const RateSearchOptions options{.steps = 200};
  const RateCurve curve = SearchLearningRate(request, options);
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  ASSERT_TRUE(curve.suggestion()) << curve.remark;
  EXPECT_TRUE(curve.exploded) << "a rate of " << curve.points.back().rate << " learns";
  EXPECT_LT(curve.points.size(), 200U);
  // What it suggests trains; it neither explodes nor stands still.
  request.train.schedule.learning_rate = *curve.suggestion();
  request.train.schedule.final_learning_rate = *curve.suggestion() / 10;
  const auto group = comm::ProcessGroup::Alone();
  const TrainingReport report = RunTraining(request, {.group = *group, .threads = [] { return 1; }});
  EXPECT_EQ(report.summary.fallbacks, 0);
  EXPECT_LT(report.summary.held_out_loss, 0.7 * std::log(8.0));
  // Again, it is the same.
  const RateCurve again = SearchLearningRate(request, options);
  ASSERT_EQ(again.points.size(), curve.points.size());
  for (size_t i = 0; i < curve.points.size(); ++i) ASSERT_EQ(again.points[i].loss, curve.points[i].loss) << i;
}

}  // namespace
}  // namespace antiphon::train
