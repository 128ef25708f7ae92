// What steps report as spent on exchanging, against a simulated cluster's account of its ranks' time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/simulated_world.h"
#include "parallel/small_learner.h"

namespace antiphon::parallel {
namespace {

struct Spent {
  double all = 0;
  double exchanging = 0;
};

// As the trainer does: what no step reports is asked for.
void TrainRounds(Learner& learner, Spent& mine) {
  TakesWhenFree& rounds = *learner.strategy->rounds();
  rounds.BeginRound(0, 40);
  while (const auto m = rounds.Take()) {
    mine.exchanging += learner.strategy->TakeCommunication();
    mine.exchanging += learner.Step(Minibatch(*m), *m, 0.1, *m).communication_seconds;
  }
  rounds.EndRound();
  mine.exchanging += learner.strategy->TakeCommunication();
}

void TrainSteps(Learner& learner, Spent& mine) {
  for (int64_t step = 0; step < 20; ++step) {
    mine.exchanging += learner.Step(Minibatch(step), step, 0.1).communication_seconds;
  }
}

// Ranks whose arithmetic and messages take about as long.
comm::SimulationReport TrainOnSlowLinks(const std::string& keys, int workers, std::vector<Spent>& spent) {
  comm::ClusterOptions cluster;
  cluster.host.gflops = 0.01;
  cluster.host.send_gb_s = 0.1;
  spent.assign(static_cast<size_t>(workers), {});
  return comm::RunSimulated(workers, cluster, [&](comm::Communicator& comm) {
    Learner learner(keys, comm, "type = \"sgd\"\n");
    Spent& mine = spent[static_cast<size_t>(comm.rank())];
    const double begin = comm.Now();
    if (learner.strategy->rounds() != nullptr) {
      TrainRounds(learner, mine);
    } else {
      TrainSteps(learner, mine);
    }
    for (const StepOutput& output : learner.strategy->Drain()) mine.exchanging += output.communication_seconds;
    learner.strategy->AfterEpoch();
    mine.exchanging += learner.strategy->TakeCommunication();
    mine.all = comm.Now() - begin;
  });
}

TEST(ExchangeTime, IsWhatArithmeticLeaves) {
  for (const std::string keys :
       {"method = \"ssgd\"\n", "method = \"ssgd\"\naccumulate = 3\ncodec = {type = \"one-bit\"}\n",
        "method = \"averaging\"\nsync-period = 3\n", "method = \"natural-gradient-averaging\"\nsync-period = 3\n",
        "method = \"bmuf\"\nsync-period = 3\n", "method = \"easgd\"\nsync-period = 3\n",
        "method = \"easgd\"\nsync-period = 3\nasynchronous = true\n", "method = \"admm\"\nsync-period = 3\n",
        "method = \"model-parallel\"\n", "method = \"model-parallel\"\nstripes = 2\n",
        "method = \"model-parallel\"\ndata-parallel-layers = 4\n", "method = \"pipeline\"\noutput-stripes = 3\n",
        "method = \"pipeline\"\noutput-stripes = 2\n", "method = \"asgd\"\n", "method = \"host-master\"\n",
        "method = \"asgd-groups\"\nstripes = 2\n", "method = \"hessian-free\"\ncg-iterations = 5\n"}) {
    SCOPED_TRACE(keys);
    std::vector<Spent> spent;
    const auto report = TrainOnSlowLinks(keys, 4, spent);
    for (size_t r = 0; r < spent.size(); ++r) {
      EXPECT_GT(spent[r].exchanging, 0);
      EXPECT_NEAR(spent[r].exchanging + report.ranks[r].compute_seconds, spent[r].all, 0.01 * spent[r].all);
    }
  }
}

}  // namespace
}  // namespace antiphon::parallel
