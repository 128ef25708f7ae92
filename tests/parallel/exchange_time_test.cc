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

// Ranks whose arithmetic and messages take about as long.
comm::SimulationReport TrainOnSlowLinks(const std::string& keys, int workers, std::vector<Spent>& spent) {
  comm::ClusterOptions cluster;
  cluster.host.gflops = 0.01;
  spent.assign(static_cast<size_t>(workers), {});
  return comm::RunSimulated(workers, cluster, [&](comm::Communicator& comm) {
    Learner learner(keys, comm);
    Spent& mine = spent[static_cast<size_t>(comm.rank())];
    const double begin = comm.Now();
    const auto take = [&](const Minibatch& minibatch, int64_t number, int64_t index) {
      mine.exchanging += learner.Step(minibatch, number, 0.1, index).communication_seconds;
    };
    if (learner.strategy->rounds() != nullptr) {
      learner.strategy->rounds()->BeginRound(0, 40);
      const double round = comm.Now();
      while (const auto m = learner.strategy->rounds()->Take()) {
        const double before = comm.Now();
        take(Minibatch(*m), *m, *m);
        mine.all += comm.Now() - before;
      }
      EXPECT_GT(comm.Now(), round);
      learner.strategy->rounds()->EndRound();
      return;
    }
    for (int64_t step = 0; step < 20; ++step) take(Minibatch(step), step, -1);
    learner.EndEpoch();
    mine.exchanging += learner.strategy->TakeCommunication();
    mine.all = comm.Now() - begin;
  });
}

TEST(ExchangeTime, IsWhatArithmeticLeaves) {
  for (const std::string keys :
       {"method = \"ssgd\"\n", "method = \"averaging\"\nsync-period = 3\n", "method = \"easgd\"\nsync-period = 3\n",
        "method = \"model-parallel\"\n", "method = \"model-parallel\"\nstripes = 2\n",
        "method = \"hessian-free\"\ncg-iterations = 5\n"}) {
    std::vector<Spent> spent;
    const auto report = TrainOnSlowLinks(keys, 4, spent);
    for (size_t r = 0; r < spent.size(); ++r) {
      EXPECT_GT(spent[r].exchanging, 0.01 * spent[r].all) << keys;
      EXPECT_NEAR(spent[r].exchanging + report.ranks[r].compute_seconds, spent[r].all, 0.05 * spent[r].all) << keys;
    }
  }
}

// Slaves' own exchanges, and waiting for servers.
TEST(ExchangeTime, OfGroupsIsThatOfSlavesAndServers) {
  std::vector<Spent> groups;
  const auto report = TrainOnSlowLinks("method = \"asgd-groups\"\nstripes = 2\n", 4, groups);
  for (size_t r = 0; r < groups.size(); ++r) {
    EXPECT_NEAR(groups[r].exchanging + report.ranks[r].compute_seconds, groups[r].all, 0.1 * groups[r].all);
  }
}

}  // namespace
}  // namespace antiphon::parallel
