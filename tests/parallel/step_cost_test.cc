#include "parallel/step_cost.h"

#include <gtest/gtest.h>

#include "comm/simulated_world.h"
#include "optim/optimizer.h"
#include "parallel/strategy.h"

namespace antiphon::parallel {
namespace {

nn::Network SmallNetwork() {
  const Config config = Config::Parse(
      "[[layer]]\ntype = \"normalize\"\n[[layer]]\ntype = \"affine\"\ndim = 20\n[[layer]]\ntype = \"relu\"\n"
      "[[layer]]\ntype = \"affine\"\n",
      "network");
  return nn::Network(config, 10, 5, 1);
}

TEST(StepCost, IsSixOperationsPerWeightLessTheLowestLayersDerivative) {
  const StepCost cost(SmallNetwork());
  EXPECT_EQ(cost.forward_flops(), 2.0 * (10 * 20 + 20 * 5));
  EXPECT_EQ(cost.backward_flops(0), 0);
  EXPECT_EQ(cost.backward_flops(1), 2.0 * 10 * 20);
  EXPECT_EQ(cost.backward_flops(3), 4.0 * 20 * 5);
  EXPECT_EQ(cost.total_flops(), 6.0 * (10 * 20 + 20 * 5) - 2.0 * 10 * 20);
}

TEST(StepCost, AStepTakesItsCostInVirtualTime) {
  comm::ClusterOptions cluster;
  cluster.host.gflops = 0.001;
  comm::RunSimulated(1, cluster, [&](comm::Communicator& comm) {
    nn::Network network = SmallNetwork();
    const auto optimizer = optim::MakeOptimizer(Config(), network);
    const auto strategy = MakeStrategy(Config(), {&network, optimizer.get(), &comm});
    const Matrix features(7, 10);
    const std::vector<int32_t> pdf_ids(7, 2);
    StepInput input;
    input.features = features;
    input.targets.pdf_ids = pdf_ids;
    input.learning_rate = 0.1;
    strategy->Start();
    strategy->Step(input);
    EXPECT_NEAR(comm.Now(), 7 * StepCost(network).total_flops() / 1e6, 1e-12);
  });
}

}  // namespace
}  // namespace antiphon::parallel
