// What docs/results/simulation.md says of block momentum on many workers at 10 Gbit/s.
#include <gtest/gtest.h>

#include "plan/cost_model.h"

namespace antiphon::plan {
namespace {

double SpeedUp(int workers, const std::string& exchange, int ranks_per_node = 1) {
  CostPlan plan;
  plan.method = "bmuf";
  plan.workers = workers;
  plan.sync_period = 40;
  plan.exchange = exchange;
  comm::ClusterOptions cluster;
  cluster.links.ranks_per_node = ranks_per_node;
  cluster.links.between.bandwidth_mb_s = 1250;
  return SimulateCost(CostNetwork({462, 2048, 2048, 2048, 2048, 2048, 10217}), plan, cluster).speedup;
}

TEST(BmufScaling, SumsInPiecesKeepNineTenthsOn64Workers) {
  EXPECT_NEAR(SpeedUp(16, "tree"), 11.3, 0.05);
  EXPECT_NEAR(SpeedUp(64, "tree"), 39.2, 0.1);
  EXPECT_NEAR(SpeedUp(16, ""), 14.6, 0.05);
  EXPECT_NEAR(SpeedUp(64, ""), 58.0, 0.1);
  EXPECT_GT(SpeedUp(64, "") / 64, 0.9);
}

// Inside nodes first: a node's workers cost its network once.
TEST(BmufScaling, WorkersThatShareANetworkCardCostItOnce) {
  for (const int ranks_per_node : {4, 8}) {
    EXPECT_GT(SpeedUp(64, "", ranks_per_node) / 64, 0.9) << ranks_per_node;
    EXPECT_LT(SpeedUp(64, "two-stage", ranks_per_node) / 64, 0.75) << ranks_per_node << ": flat";
    EXPECT_LT(SpeedUp(64, "tree", ranks_per_node) / 64, 0.75) << ranks_per_node;
  }
}

}  // namespace
}  // namespace antiphon::plan
