// Layers cut into stages, against every way to cut them.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/cost_model.h"
#include "plan/pipeline_split.h"

namespace antiphon::plan {
namespace {

TEST(Balance, FindsTheLeastLargestPartOfAllSplits) {
  const std::vector<double> costs = {3, 1, 4, 1, 5, 9, 2, 6};
  for (int stages = 1; stages <= 5; ++stages) {
    double least = 1e9;
    // Every choice of cuts as bits between the layers.
    for (int cuts = 0; cuts < 1 << 7; ++cuts) {
      if (__builtin_popcount(static_cast<unsigned>(cuts)) != stages - 1) continue;
      double part = 0;
      double largest = 0;
      for (size_t i = 0; i < costs.size(); ++i) {
        part += costs[i];
        largest = std::max(largest, part);
        if (i < 7 && (cuts >> i & 1) != 0) part = 0;
      }
      least = std::min(least, largest);
    }
    const std::vector<int> sizes = Balance(costs, stages);
    ASSERT_EQ(sizes.size(), static_cast<size_t>(stages));
    double largest = 0;
    size_t layer = 0;
    for (const int size : sizes) {
      EXPECT_GT(size, 0);
      double part = 0;
      for (int i = 0; i < size; ++i) part += costs[layer++];
      largest = std::max(largest, part);
    }
    EXPECT_EQ(layer, costs.size());
    EXPECT_EQ(largest, least) << stages;
  }
}

TEST(Balance, StripesAnOutputLayerThatOutweighsTheRest) {
  const CostNetwork network({429, 2048, 2048, 2048, 2048, 2048, 2048, 2048, 9304});
  CostPlan plan;
  plan.method = "pipeline";
  plan.workers = 4;
  const PipelineSplit four = SplitFor(network, plan);
  EXPECT_EQ(four.stripes, 2);
  EXPECT_EQ(four.stage_layers, (std::vector<int>{4, 3, 1}));
}

}  // namespace
}  // namespace antiphon::plan
