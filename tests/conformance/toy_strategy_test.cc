// A new strategy is one file (toy_strategy.cc): what is known of strategies is then known of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/strategy.h"
#include "plan/planner.h"

namespace antiphon::plan {
namespace {

TEST(ToyStrategy, IsKnownByItsName) {
  EXPECT_TRUE(parallel::StrategyRegistry::Get().Has("toy"));
  EXPECT_THAT(CostPlan::CostMethods(), ::testing::Contains("toy"));
}

TEST(ToyStrategy, IsSimulated) {
  CostPlan toy;
  toy.method = "toy";
  toy.workers = 4;
  CostPlan averaging = toy;
  averaging.method = "averaging";
  const CostNetwork network({440, 512, 1000});
  const CostResult result = SimulateCost(network, toy, {});
  EXPECT_EQ(result.frames_per_second, SimulateCost(network, averaging, {}).frames_per_second);
  EXPECT_EQ(result.memory_bytes, SimulateCost(network, averaging, {}).memory_bytes);
}

TEST(ToyStrategy, IsProposed) {
  PlanRequest request;
  request.dims = {440, 1024, 1024, 4000};
  request.frames = 100 * 360000.0;
  const Recommendation r = Recommend(request);
  std::vector<std::string> names = {r.best.name, r.runner_up.name};
  for (const Candidate& other : r.others) names.push_back(other.name);
  ASSERT_THAT(names, ::testing::Contains("toy"));
  const auto toy = std::find_if(r.others.begin(), r.others.end(), [](const auto& c) { return c.name == "toy"; });
  if (toy != r.others.end()) {
    EXPECT_THAT(toy->table, ::testing::HasSubstr("method = \"toy\"\nworkers = 8\nsync-period = "));
  }
}

}  // namespace
}  // namespace antiphon::plan
