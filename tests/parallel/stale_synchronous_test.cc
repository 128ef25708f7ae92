// Servers' bounds and delays against what is known of them: algorithms reference 1.9 and, of its test kit, G7.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "comm/simulated_world.h"
#include "parallel/server_pool.h"
#include "small_learner.h"

namespace antiphon::parallel {
namespace {

// Changes in whole numbers, so that the order of their sum has no say.
std::vector<float> WholeChange(const std::vector<float>& model, int rank, int64_t clock) {
  std::vector<float> change(model.size());
  for (size_t i = 0; i < model.size(); ++i) {
    const auto seen = static_cast<int64_t>(model[i]);
    change[i] = static_cast<float>((seen * (rank + 3) + clock + static_cast<int64_t>(i)) % 11 - 4);
  }
  return change;
}

TEST(StaleSynchronous, WithoutSlackIsSynchronousSgdToTheBit) {
  constexpr int kWorkers = 3;
  constexpr int64_t kClocks = 20;
  std::vector<float> expected(10, 1.0f);
  for (int64_t clock = 0; clock < kClocks; ++clock) {
    std::vector<float> sum(expected.size(), 0.0f);
    for (int w = 0; w < kWorkers; ++w) {
      const std::vector<float> change = WholeChange(expected, w, clock);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += change[i];
    }
    for (size_t i = 0; i < sum.size(); ++i) expected[i] += sum[i];
  }
  const auto train = [&](int64_t bound) {
    return OnRanks(kWorkers, [&](comm::Communicator& comm) {
      std::vector<float> model(10, 1.0f);
      ServerPoolOptions options;
      options.staleness_bound = bound;
      ServerPool pool(comm, options, model);
      pool.BeginRound(0, kClocks * kWorkers);
      for (int64_t clock = 0; const auto m = pool.Take(); ++clock) {
        pool.Judge({&*m, 1});
        pool.Push(WholeChange(model, comm.rank(), clock), 0);
        pool.Pull(model);
      }
      pool.EndRound();
      pool.Collect(model);
      return model;
    });
  };
  for (int run = 0; run < 5; ++run) EXPECT_EQ(train(0)[0], expected);
}

// Virtual time that 90 minibatches of workers of uneven pace take.
double SecondsWithBound(int64_t bound) {
  comm::ClusterOptions cluster;
  cluster.host.jitter = 1.0;
  std::vector<double> ends(3, 0.0);
  comm::RunSimulated(3, cluster, [&](comm::Communicator& comm) {
    std::vector<float> model(30, 0.0f);
    ServerPoolOptions options;
    options.staleness_bound = bound;
    ServerPool pool(comm, options, model);
    pool.BeginRound(0, 90);
    while (const auto m = pool.Take()) {
      for (int piece = 0; piece < 5; ++piece) {
        comm.Compute(0.01);
        pool.Serve();
      }
      pool.Judge({&*m, 1});
      pool.Push(std::vector<float>(30, 1.0f), 0);
      pool.Pull(model);
    }
    pool.EndRound();
    ends[static_cast<size_t>(comm.rank())] = comm.Now();
  });
  return *std::max_element(ends.begin(), ends.end());
}

TEST(StaleSynchronous, MoreSlackIsFaster) {
  const double none = SecondsWithBound(0);
  const double some = SecondsWithBound(2);
  const double any = SecondsWithBound(-1);
  EXPECT_GT(none, 1.02 * some);
  EXPECT_GE(some, any);
}

// The delayed quadratic (G7): w ← w − εh·w of τ updates ago is stable if and only if εh < 2·sin(π/(2(2τ+1))). Workers
// of equal pace push in turn, each what it read τ = workers − 1 pushes before.
double DelayedQuadratic(int workers, double step) {
  double last = 0;
  comm::ClusterOptions cluster;
  cluster.host.gflops = 1;  // so that Compute takes the seconds that it is told
  comm::RunSimulated(workers, cluster, [&](comm::Communicator& comm) {
    std::vector<float> w(1, 1.0f);
    ServerPoolOptions options;
    options.servers = 1;
    ServerPool pool(comm, options, w);
    pool.BeginRound(0, 200 * workers);
    pool.Pull(w);
    comm.Compute(comm.rank());  // seconds; then every `workers` seconds
    double largest = 0;
    for (int64_t n = 0; const auto m = pool.Take(); ++n) {
      pool.Judge({&*m, 1});
      pool.Push(std::vector<float>(1, -static_cast<float>(step) * w[0]), 0);
      pool.Pull(w);
      if (n >= 190) largest = std::max(largest, std::abs(static_cast<double>(w[0])));
      const double next = static_cast<double>(workers) * static_cast<double>(n + 1) + comm.rank();
      while (comm.Now() < next) {
        comm.Compute(std::min(0.25, next - comm.Now()) + 1e-9);
        pool.Serve();
      }
    }
    pool.EndRound();
    if (comm.rank() == 0) last = largest;
  });
  return last;
}

TEST(DelayedQuadraticG7, IsStableUpToTheKnownStep) {
  for (int delay = 0; delay <= 4; ++delay) {
    const double limit = 2 * std::sin(std::numbers::pi / (2 * (2 * delay + 1)));
    EXPECT_LT(DelayedQuadratic(delay + 1, 0.93 * limit), 0.1) << "delay " << delay;
    EXPECT_GT(DelayedQuadratic(delay + 1, 1.07 * limit), 10) << "delay " << delay;
  }
}

}  // namespace
}  // namespace antiphon::parallel
