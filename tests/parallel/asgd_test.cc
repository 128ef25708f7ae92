// Asynchronous SGD: the pool of minibatches, versions and bounds, and that a logged run can be replayed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "comm/simulated_world.h"
#include "parallel/busy_server.h"
#include "parallel/minibatch_ledger.h"
#include "parallel/server_pool.h"
#include "parallel/small_learner.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

TEST(MinibatchLedger, GivesEachOnceAndLostOnesAgain) {
  MinibatchLedger ledger(2);
  ledger.BeginRound(10, 14);
  EXPECT_EQ(ledger.Take(0), 10);
  EXPECT_EQ(ledger.Take(1), 11);
  EXPECT_EQ(ledger.Take(0), 12);
  ledger.Confirm(0, std::vector<int64_t>{10});
  EXPECT_THROW(ledger.Confirm(1, std::vector<int64_t>{10}), InternalError);
  ledger.GiveBack(1, std::vector<int64_t>{11});
  EXPECT_EQ(ledger.Take(1), 11) << "what came back goes out first";
  EXPECT_EQ(ledger.Lose(1), 1);
  ledger.Stop();
  EXPECT_EQ(ledger.Take(0), 11) << "also when nothing new does";
  EXPECT_EQ(ledger.Take(0), std::nullopt);
  ledger.Confirm(0, std::vector<int64_t>{11, 12});
  EXPECT_EQ(ledger.next(), 13);
  EXPECT_EQ(ledger.num_confirmed(), 3);
  EXPECT_EQ(ledger.num_outstanding(), 0);
}

// With dedicated servers, that is not rank 0.
TEST(MinibatchLedger, TakesWhatCameBackFromWhoeverKeptIt) {
  const testing::TemporaryFolder folder;
  MinibatchLedger kept(2);
  kept.BeginRound(0, 4);
  for (int k = 0; k < 4; ++k) kept.Take(k % 2);
  kept.Confirm(0, std::vector<int64_t>{0});
  kept.GiveBack(1, std::vector<int64_t>{1, 3});
  kept.GiveBack(0, std::vector<int64_t>{2});
  for (const bool keeps : {false, true}) {
    SafetensorsWriter writer;
    writer.Add("other", std::vector<float>{1});
    if (keeps) kept.SaveState(writer, "pool");
    writer.Write(folder / (keeps ? "keeper" : "other"));
  }
  const auto fold = [&](const std::vector<std::string>& files) {
    std::vector<SafetensorsReader> ranks;
    for (const std::string& file : files) ranks.emplace_back(folder / file);
    MinibatchLedger ledger(1);
    ledger.LoadFolded(ranks, "pool");
    ledger.BeginRound(4, 4);
    std::vector<int64_t> returned;
    while (const auto m = ledger.Take(0)) returned.push_back(*m);
    return returned;
  };
  EXPECT_EQ(fold({"other", "other", "keeper"}), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_TRUE(fold({"other"}).empty()) << "one worker alone keeps none";
  EXPECT_THROW(fold({"other", "other"}), InputError);
}

TEST(ParameterShard, FollowsTheServersRules) {
  const std::vector<float> start = {1, 2};
  const std::vector<float> push = {0.5f, -1};
  ParameterShard sum(ServerRule::kSum, 0, start);
  sum.Apply(push, 7);
  EXPECT_EQ(sum.values()[0], 1.5f);
  EXPECT_EQ(sum.values()[1], 1.0f);
  EXPECT_EQ(sum.version(), 1);
  ParameterShard momentum(ServerRule::kMomentum, 0.5, start);
  momentum.Apply(push, 0.1);
  momentum.Apply(push, 0.1);
  EXPECT_FLOAT_EQ(momentum.values()[0], 1 - 0.1f * 0.5f - 0.1f * 0.75f);
  ParameterShard adagrad(ServerRule::kAdagrad, 0, start);
  adagrad.Apply(push, 0.1);
  EXPECT_NEAR(adagrad.values()[1], 2.1, 1e-6);  // the first step has the length of the rate
  adagrad.Apply(push, 0.1);
  EXPECT_NEAR(adagrad.values()[1], 2.1 + 0.1 / std::sqrt(2.0), 1e-6);
}

// Whole numbers add without rounding, so that nothing may be missing.
TEST(ServerPool, KeepsTheSumOfAllPushes) {
  for (const int servers : {1, 3}) {
    constexpr size_t kSize = 101;
    std::atomic<int64_t> pushed = 0;
    comm::RunRanks(3, [&](comm::Communicator& comm) {
      std::vector<float> model(kSize, 5.0f);
      ServerPoolOptions options;
      options.servers = servers;
      ServerPool pool(comm, options, model);
      pool.BeginRound(0, 40);
      while (const auto m = pool.Take()) {
        EXPECT_TRUE(pool.Judge({&*m, 1}).apply);
        std::vector<float> push(kSize, static_cast<float>(*m));
        pool.Push(push, 0);
        pool.Pull(model);
        pushed += *m;
      }
      const auto [next, came_back] = pool.EndRound();
      EXPECT_EQ(next, 40);
      EXPECT_EQ(came_back, 0);
      pool.Collect(model);
      for (const float v : model) EXPECT_EQ(v, 5.0f + 40.0f * 39.0f / 2.0f);
    });
    EXPECT_EQ(pushed, 40 * 39 / 2);
  }
}

TEST(ServerPool, ServesWhileItsOwnRankIsBusy) {
  OnRanks(3, [](comm::Communicator& comm) {
    ExpectServedWhileRankZeroIsBusy(comm);
    return 0;
  });
}

// Rank 1 computes on a model that misses as many pushes as rank 0 makes meanwhile.
TEST(ServerPool, DropsPushesBeyondTheThresholdAndReturnsTheirMinibatches) {
  constexpr int kTag = 7;
  for (const int64_t missed : {3, 4}) {
    std::atomic<int> trained = 0;
    std::atomic<bool> judged = false;
    comm::RunRanks(2, [&](comm::Communicator& comm) {
      std::vector<float> model(10, 0.0f);
      ServerPoolOptions options;
      options.servers = 1;
      options.max_staleness = 3;
      ServerPool pool(comm, options, model);
      pool.BeginRound(0, 12);
      int64_t count = 0;
      bool first = true;
      const auto serve_until_told = [&] {
        while (!comm.Poll(1, kTag)) pool.Serve();
        comm.Receive(1, kTag);
      };
      // Rank 0 begins when rank 1 has its first minibatch, and makes a pause while that is judged.
      if (comm.rank() == 0) serve_until_told();
      while (const auto m = pool.Take()) {
        if (comm.rank() == 1 && first) {
          comm.Send(0, kTag, {});
          comm.Receive(0, kTag);
        }
        const Verdict verdict = pool.Judge({&*m, 1});
        if (comm.rank() == 1 && first) {
          EXPECT_EQ(verdict.staleness, missed);
          EXPECT_EQ(verdict.apply, missed <= 3);
          judged = true;
          comm.Send(0, kTag, {});
        }
        first = false;
        if (verdict.apply) {
          pool.Push(std::vector<float>(10, 1.0f), 0);
          ++trained;
        }
        pool.Pull(model);
        if (comm.rank() == 0 && ++count == missed) {
          comm.Send(1, kTag, {});
          serve_until_told();
        }
      }
      const auto [next, came_back] = pool.EndRound();
      EXPECT_EQ(next, 12);
      pool.BeginRound(next, 12);
      while (const auto m = pool.Take()) {
        EXPECT_TRUE(pool.Judge({&*m, 1}).apply);
        pool.Push(std::vector<float>(10, 1.0f), 0);
        pool.Pull(model);
        ++trained;
      }
      EXPECT_EQ(pool.EndRound().second, 0);
      pool.Collect(model);
      EXPECT_EQ(model[0], 12.0f) << "every minibatch counts once";
    });
    EXPECT_EQ(trained, 12);
    EXPECT_TRUE(judged);
  }
}

comm::ClusterOptions SlowRank(double factor) {
  comm::ClusterOptions cluster;
  cluster.host.straggler_ranks = {2};
  cluster.host.straggler_factor = factor;
  return cluster;
}

// Virtual time: rank 2 is slow, and all write down when they begin and end their pushes.
int64_t LargestGap(int64_t bound, int64_t* slow_taken = nullptr) {
  std::vector<std::pair<double, int>> pushes;  // time, rank
  std::mutex mutex;
  comm::RunSimulated(3, SlowRank(10), [&](comm::Communicator& comm) {
    std::vector<float> model(30, 0.0f);
    ServerPoolOptions options;
    options.staleness_bound = bound;
    ServerPool pool(comm, options, model);
    pool.BeginRound(0, 120);
    int64_t taken = 0;
    while (const auto m = pool.Take()) {
      for (int piece = 0; piece < 10; ++piece) {
        comm.Compute(0.01);
        pool.Serve();
      }
      ++taken;
      pool.Judge({&*m, 1});
      {
        const std::lock_guard lock(mutex);
        pushes.emplace_back(comm.Now(), comm.rank());
      }
      pool.Push(std::vector<float>(30, 1.0f), 0);
      pool.Pull(model);
    }
    pool.EndRound();
    if (slow_taken != nullptr && comm.rank() == 2) *slow_taken = taken;
  });
  std::sort(pushes.begin(), pushes.end());
  std::vector<int64_t> left(3, 0);
  for (const auto& [time, rank] : pushes) ++left[static_cast<size_t>(rank)];
  std::vector<int64_t> clocks(3, 0);
  int64_t gap = 0;
  for (const auto& [time, rank] : pushes) {
    ++clocks[static_cast<size_t>(rank)];
    --left[static_cast<size_t>(rank)];
    for (size_t w = 0; w < 3; ++w) {
      if (left[w] > 0) gap = std::max(gap, clocks[static_cast<size_t>(rank)] - clocks[w]);
    }
  }
  return gap;
}

TEST(ServerPool, BoundsTheDistanceBetweenClocks) {
  for (const int64_t bound : {0, 1, 3}) EXPECT_LE(LargestGap(bound), bound + 1) << "bound " << bound;
  int64_t slow = 0;
  EXPECT_GT(LargestGap(-1, &slow), 4) << "without a bound the fast ones run away";
  EXPECT_GT(slow, 0);
  EXPECT_LT(slow, 20) << "and the slow one takes fewer of the common minibatches";
}

std::vector<int64_t> Sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

TEST(Asgd, TakesEachMinibatchOnceAlsoWithASlowWorker) {
  std::vector<int64_t> all;
  std::mutex mutex;
  comm::RunSimulated(3, SlowRank(10), [&](comm::Communicator& comm) {
    Learner learner("method = \"asgd\"\nmax-staleness = -1\n", comm);
    learner.TrainRound(0, 50);
    const std::lock_guard lock(mutex);
    all.insert(all.end(), learner.trained.begin(), learner.trained.end());
  });
  std::vector<int64_t> expected(50);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(Sorted(all), expected);
}

uint64_t TrainAsynchronously(const std::string& keys, bool simulated = false) {
  std::atomic<uint64_t> hash = 0;
  const auto body = [&](comm::Communicator& comm) {
    comm.set_deadline_seconds(60);
    Learner learner("method = \"asgd\"\n" + keys, comm);
    learner.TrainRound(0, 30);
    learner.TrainRound(30, 60);
    const uint64_t mine = learner.End();
    if (comm.rank() == 0) hash = mine;
  };
  if (simulated) {
    comm::RunSimulated(3, SlowRank(3), body);
  } else {
    comm::RunRanks(3, body);
  }
  return hash;
}

TEST(Asgd, ALoggedRunIsReplayedBitForBit) {
  const testing::TemporaryFolder folder;
  const std::string log = (folder / "arrivals").string();
  for (const std::string keys :
       {"push-every = 2\n", "server-update = \"adagrad\"\nserver-rate-factor = 0.1\n",
        "staleness-bound = 1\nservers = 2\n", "max-staleness = 1\ncompensation = 0.5\n",
        "servers = 1\ndedicated-servers = true\n", "overlap = true\npush-every = 1\n",
        "servers = 1\ndedicated-servers = true\noverlap = true\nmax-staleness = 1\n",
        "overlap = true\nserver-update = \"momentum\"\nserver-momentum = 0.5\nserver-rate-factor = 0.2\n"}) {
    const uint64_t logged = TrainAsynchronously(keys + "arrival-log = \"" + log + "\"\n");
    for (int run = 0; run < 3; ++run) {
      EXPECT_EQ(TrainAsynchronously(keys + "replay = \"" + log + "\"\n"), logged) << keys;
    }
  }
}

// As for a checkpoint by the clock: rank 0 ends a round early, after minibatches that no other run has to know of.
TEST(Asgd, AReplayEndsRoundsWhereTheLoggedRunDid) {
  const testing::TemporaryFolder folder;
  const std::string log = (folder / "arrivals").string();
  // With `wait` the other ranks hold their first minibatch until rank 0 has stopped a round, so that it comes to that.
  const auto train = [](const std::string& keys, int64_t stop_after, bool wait) {
    std::latch stopped(1);
    return OnRanks(3, [&](comm::Communicator& comm) {
      comm.set_deadline_seconds(10);
      Learner learner("method = \"asgd\"\n" + keys, comm);
      std::vector<int64_t> ends;
      int64_t taken = 0;
      for (int64_t first = 0, came_back = 1; first < 60 || came_back > 0; ends.push_back(first)) {
        learner.strategy->rounds()->BeginRound(first, 60);
        while (const auto m = learner.strategy->rounds()->Take()) {
          if (wait && comm.rank() != 0) stopped.wait();
          learner.Step(Minibatch(*m), *m, 0.3, *m);
          if (comm.rank() != 0 || ++taken % stop_after != 0) continue;
          learner.strategy->rounds()->StopRound();
          if (!stopped.try_wait()) stopped.count_down();
        }
        std::tie(first, came_back) = learner.strategy->rounds()->EndRound();
      }
      return std::pair(ends, learner.End());
    });
  };
  // A bound on staleness makes them wait for rank 0 by itself.
  for (const auto& [keys, wait] :
       {std::pair(std::string("push-every = 1\n"), true), {"staleness-bound = 1\nservers = 2\n", false}}) {
    const auto logged = train(keys + "arrival-log = \"" + log + "\"\n", 4, wait);
    EXPECT_GT(logged[0].first.size(), 1u) << "no round ended early";
    for (const int64_t stop_after : {1, 3, 1000}) {
      EXPECT_EQ(train(keys + "replay = \"" + log + "\"\n", stop_after, false), logged) << keys;
    }
  }
}

TEST(Asgd, ALogIsThatOfTheWholeRunHoweverOftenItWasBrokenOff) {
  const testing::TemporaryFolder folder;
  const std::string log = "arrival-log = \"" + (folder / "arrivals").string() + "\"\n";
  const auto part = [&](const std::string& keys, int64_t first, int64_t last) {
    return OnRanks(3, [&](comm::Communicator& comm) {
      const auto file = [&](int64_t at) { return folder / fmt::format("at-{}.rank-{}", at, comm.rank()); };
      Learner learner("method = \"asgd\"\n" + keys, comm);
      if (first > 0) learner.Load(file(first));
      for (int64_t at = first; at < last; at += 20) {
        learner.TrainRound(at, at + 20);
        learner.Save(file(at + 20));
      }
      return learner.End();
    })[0];
  };
  part(log, 0, 40);                          // to be broken off after 40, or after 20 before 40 is saved
  const uint64_t whole = part(log, 20, 60);  // what followed 20 then does not count any more
  const std::string replay = "replay = \"" + (folder / "arrivals").string() + "\"\n";
  EXPECT_EQ(part(replay, 0, 60), whole);
  EXPECT_EQ(part(replay, 40, 60), whole) << "a replay goes on from its own checkpoints too";
}

TEST(Asgd, AReplayOfAnotherRunIsRefusedInsteadOfWaiting) {
  const testing::TemporaryFolder folder;
  const std::string log = (folder / "arrivals").string();
  const auto train = [](const std::string& keys, int64_t minibatches) {
    comm::RunRanks(3, [&](comm::Communicator& comm) {
      comm.set_deadline_seconds(10);
      Learner learner("method = \"asgd\"\n" + keys, comm);
      learner.TrainRound(0, minibatches);
    });
  };
  train("push-every = 1\narrival-log = \"" + log + "\"\n", 12);
  EXPECT_THROW(train("push-every = 3\nreplay = \"" + log + "\"\n", 12), InputError);
  EXPECT_THROW(train("push-every = 1\nreplay = \"" + log + "\"\n", 24), InputError);
}

TEST(ArrivalLog, RefusesToGoOnBeyondItsEnd) {
  const testing::TemporaryFolder folder;
  ArrivalLog log(folder / "log", {});
  log.Record({4, 2});
  log.Write();
  ArrivalLog replay({}, folder / "log");
  EXPECT_TRUE(replay.replaying());
  EXPECT_EQ(replay.Next(), (Arrival{4, 2}));
  replay.Record({4, 2});
  EXPECT_THROW(replay.Next(), InputError);
  ArrivalLog shorter(folder / "log", {});
  EXPECT_THROW(shorter.GoOnBehind(2), InputError);
  WriteFileAtomically(folder / "other", std::string("something else altogether"));
  EXPECT_THROW(ArrivalLog({}, folder / "other"), InputError);
}

TEST(Asgd, ASimulatedClusterGivesTheSameBitsAndStalenessOfWorkersMinusOne) {
  EXPECT_EQ(TrainAsynchronously("", true), TrainAsynchronously("", true));
  double sum = 0;
  int64_t count = 0;
  std::mutex mutex;
  comm::ClusterOptions equal;
  comm::RunSimulated(4, equal, [&](comm::Communicator& comm) {
    Learner learner("method = \"asgd\"\nmax-staleness = -1\npush-every = 1\n", comm);
    learner.strategy->rounds()->BeginRound(0, 80);
    while (const auto m = learner.strategy->rounds()->Take()) {
      comm.Compute(1.0);
      const StepOutput output = learner.Step(Minibatch(*m), *m, 0.1, *m);
      const std::lock_guard lock(mutex);
      sum += output.staleness;
      ++count;
    }
    learner.strategy->rounds()->EndRound();
  });
  EXPECT_EQ(count, 80);
  EXPECT_NEAR(sum / static_cast<double>(count), 3.0, 0.5);
}

TEST(Asgd, LearnsWithEveryServerRule) {
  for (const std::string keys : {"", "server-update = \"momentum\"\nserver-momentum = 0.5\n",
                                 "server-update = \"adagrad\"\nserver-rate-factor = 0.1\n",
                                 "servers = 1\ndedicated-servers = true\noverlap = true\n"}) {
    comm::RunSimulated(3, SlowRank(2), [&](comm::Communicator& comm) {
      Learner learner("method = \"asgd\"\npush-every = 1\n" + keys, comm, "type = \"sgd\"\n");
      const auto loss = [&] {
        nn::Workspace ws;
        double total = 0;
        for (int64_t m = 0; m < 10; ++m) {
          const Minibatch minibatch(m);
          nn::LossTargets targets;
          targets.pdf_ids = minibatch.pdf_ids;
          const MatrixView logits = learner.network.Forward({}, minibatch.features, ws);
          total += nn::SoftmaxCrossEntropy(logits, targets, {}).loss();
        }
        return total / 10;
      };
      const double before = loss();
      for (int epoch = 0; epoch < 30; ++epoch) learner.TrainRound(0, 10);
      EXPECT_LT(loss(), 0.9 * before) << keys;
    });
  }
}

TEST(Asgd, RefusesMoreServersThanWorkers) {
  EXPECT_THROW(
      comm::RunRanks(2, [](comm::Communicator& comm) { Learner learner("method = \"asgd\"\nservers = 3\n", comm); }),
      UsageError);
}

}  // namespace
}  // namespace antiphon::parallel
