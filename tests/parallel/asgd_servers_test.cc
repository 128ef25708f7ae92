// Asynchronous SGD with servers of their own, and with values that are asked for ahead.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "comm/simulated_world.h"
#include "parallel/server_pool.h"
#include "parallel/small_learner.h"

namespace antiphon::parallel {
namespace {

// Whoever begins a round late finds the pushes of others: they are no change of its own.
TEST(ServerPool, ChangesAddUpAndDedicatedServersLearnNothing) {
  for (const int servers : {1, 2}) {
    for (const auto& [ahead, dedicated] : {std::pair(false, true), {true, true}, {false, false}, {true, false}}) {
      constexpr size_t kSize = 101;
      std::vector<std::atomic<int64_t>> taken(4);
      comm::RunRanks(4, [&](comm::Communicator& comm) {
        std::vector<float> model(kSize, 5.0f);
        ServerPoolOptions options;
        options.servers = servers;
        options.dedicated = dedicated;
        options.ahead = ahead;
        ServerPool pool(comm, options, model);
        EXPECT_EQ(pool.workers(), dedicated ? 4 - servers : 4);
        for (int round = 0; round < 2; ++round) {
          pool.SetModel(model);
          comm.Barrier();
          pool.BeginRound(20 * round, 20 * round + 20, model);
          while (const auto m = pool.Take()) {
            ++taken[static_cast<size_t>(comm.rank())];
            EXPECT_TRUE(pool.Judge({&*m, 1}).apply);
            for (float& v : model) v += static_cast<float>(*m);  // whole numbers add without rounding
            if (ahead) {
              pool.PullAhead(model, true);
            } else {
              pool.PushChange(model);
              pool.Pull(model);
            }
          }
          EXPECT_EQ(pool.EndRound(), std::pair(int64_t{20 * round + 20}, int64_t{0}));
          pool.Collect(model);
        }
        for (const float v : model) EXPECT_EQ(v, 5.0f + 40.0f * 39.0f / 2.0f);
      });
      int64_t all = 0;
      for (size_t r = 0; r < taken.size(); ++r) {
        all += taken[r];
        if (dedicated && r >= taken.size() - static_cast<size_t>(servers)) {
          EXPECT_EQ(taken[r], 0) << "a server learned";
        }
      }
      EXPECT_EQ(all, 40);
    }
  }
}

// As a run that diverges does, which falls back and begins anew: what was asked for ahead is not there any more.
TEST(ServerPool, ARoundThatIsLeftInTheMiddleLeavesNoAnswers) {
  for (const bool ahead : {false, true}) {
    const auto self = comm::MakeSelfCommunicator();
    std::vector<float> model(7, 5.0f);
    ServerPoolOptions options;
    options.servers = 1;
    options.ahead = ahead;
    ServerPool pool(*self, options, model);
    pool.BeginRound(0, 4, model);
    EXPECT_EQ(pool.Take(), 0);
    pool.LoadLedger({}, "");
    pool.BeginRound(0, 4, model);
    std::vector<int64_t> taken;
    while (const auto m = pool.Take()) {
      taken.push_back(*m);
      EXPECT_TRUE(pool.Judge({&*m, 1}).apply);
      if (ahead) {
        pool.PullAhead(model, true);
      } else {
        pool.PushChange(model);
        pool.Pull(model);
      }
    }
    EXPECT_EQ(taken, (std::vector<int64_t>{0, 1, 2, 3})) << ahead;
    pool.EndRound();
  }
}

// A push of 20 kB takes 20 s on its way; whoever serves it looks at it when it is here.
TEST(ServerPool, WhoServesDoesNotWaitForWhatIsStillTravelling) {
  comm::ClusterOptions slow;
  slow.links.between.bandwidth_mb_s = 1e-3;
  double longest = 0;
  comm::RunSimulated(2, slow, [&](comm::Communicator& comm) {
    std::vector<float> model(5000, 1.0f);
    ServerPoolOptions options;
    options.servers = 1;
    ServerPool pool(comm, options, model);
    pool.BeginRound(0, 1, model);
    if (comm.rank() == 0) {
      while (comm.Now() < 100) {
        comm.Compute(0.5);
        const double begin = comm.Now();
        pool.Serve();
        longest = std::max(longest, comm.Now() - begin);
      }
    }
    while (const auto m = pool.Take()) {
      EXPECT_EQ(comm.rank(), 1) << "taken while rank 0 served";
      EXPECT_TRUE(pool.Judge({&*m, 1}).apply);
      pool.Push(std::vector<float>(5000, 1.0f), 0);
      pool.Pull(model);
    }
    pool.EndRound();
    pool.Collect(model);
    EXPECT_EQ(model, std::vector<float>(5000, 2.0f));
  });
  EXPECT_LT(longest, 1);
}

// One worker, whose pushes nobody else's come between: what it asked for ahead is what it would have got by waiting.
TEST(Asgd, ALoneWorkerOfADedicatedServerLearnsTheSameWithOverlap) {
  const auto train = [](const std::string& keys) {
    return OnRanks(2, [&](comm::Communicator& comm) {
      Learner learner("method = \"asgd\"\nservers = 1\ndedicated-servers = true\n" + keys, comm);
      learner.TrainRound(0, 13);
      learner.TrainRound(13, 29);
      EXPECT_EQ(learner.trained.size(), comm.rank() == 0 ? 29u : 0u);
      return learner.Values();
    });
  };
  const auto waiting = train("push-every = 2\n");
  EXPECT_EQ(train("push-every = 2\noverlap = true\n"), waiting);
  EXPECT_EQ(waiting[1], waiting[0]);
  const auto self = comm::MakeSelfCommunicator();
  Learner serial("method = \"serial\"\n", *self);
  serial.Train(0, 29);
  EXPECT_LT(LargestDifference(waiting[0], serial.Values()), 1e-5);
}

// Two exchanges' pushes of the others, instead of one's.
TEST(Asgd, ValuesAskedForAheadMissTwiceAsManyPushes) {
  for (const bool dedicated : {false, true}) {
    double sum = 0;
    int64_t count = 0;
    std::mutex mutex;
    const std::string keys = dedicated ? "servers = 2\ndedicated-servers = true\n" : "";
    comm::RunSimulated(dedicated ? 6 : 4, comm::ClusterOptions{}, [&](comm::Communicator& comm) {
      Learner learner("method = \"asgd\"\nmax-staleness = -1\npush-every = 1\noverlap = true\n" + keys, comm);
      learner.strategy->rounds()->BeginRound(0, 200);
      while (const auto m = learner.strategy->rounds()->Take()) {
        comm.Compute(1.0);
        const StepOutput output = learner.Step(Minibatch(*m), *m, 0.01, *m);
        const std::lock_guard lock(mutex);
        sum += output.staleness;
        ++count;
      }
      learner.strategy->rounds()->EndRound();
    });
    EXPECT_EQ(count, 200);
    EXPECT_NEAR(sum / static_cast<double>(count), 6.0, 0.7) << (dedicated ? "dedicated" : "workers serve");
  }
}

// Where a minibatch takes as long as its values travel, waiting doubles the time.
TEST(Asgd, NobodyWaitsForValuesAskedForAhead) {
  comm::ClusterOptions slow;
  slow.links.between.bandwidth_mb_s = 1e-3;
  const auto seconds = [&](const std::string& keys) {
    return comm::RunSimulated(3, slow,
                              [&](comm::Communicator& comm) {
                                Learner learner(
                                    "method = \"asgd\"\nmax-staleness = -1\npush-every = 1\nservers = 1\n"
                                    "dedicated-servers = true\n" +
                                        keys,
                                    comm);
                                learner.strategy->rounds()->BeginRound(0, 40);
                                while (const auto m = learner.strategy->rounds()->Take()) {
                                  comm.Compute(5.0);
                                  learner.Step(Minibatch(*m), *m, 0.01, *m);
                                }
                                learner.strategy->rounds()->EndRound();
                              })
        .seconds();
  };
  EXPECT_LT(seconds("overlap = true\n"), 0.8 * seconds(""));
}

// Ranges of rates end where they like, also within a shard.
TEST(ParameterShard, HasARateOfItsOwnForEachRange) {
  const std::vector<float> start(3, 0.0f);
  const std::vector<float> push(3, 2.0f);
  const std::vector<RateRange> rates = {{.end = 1, .factor = 0.5f}, {.end = 3, .factor = 3}};
  for (const ServerRule rule : {ServerRule::kMomentum, ServerRule::kAdagrad}) {
    ParameterShard plain(rule, 0.5, start), own(rule, 0.5, start, rates);
    for (int step = 0; step < 2; ++step) {
      plain.Apply(push, 0.1);
      own.Apply(push, 0.1);
    }
    EXPECT_LT(plain.values()[0], -0.1f);
    EXPECT_FLOAT_EQ(own.values()[0], 0.5f * plain.values()[0]);
    for (const size_t i : {1u, 2u}) EXPECT_FLOAT_EQ(own.values()[i], 3 * plain.values()[i]);
    EXPECT_EQ(own.version(), 2);
  }
}

// One worker takes one minibatch, on a model that two servers hold in halves.
TEST(Asgd, ServersRulesKeepToTheRatesOfLayers) {
  using Moved = std::pair<std::vector<float>, std::vector<float>>;  // lower layer, upper layer
  const auto train = [](const std::string& rule, const std::string& of_upper_layer) {
    return OnRanks(3, [&](comm::Communicator& comm) {
      Learner learner("method = \"asgd\"\nservers = 2\ndedicated-servers = true\npush-every = 1\nserver-update = \"" +
                          rule + "\"\n",
                      comm, "type = \"sgd\"\n",
                      {Config::Parse("[[layer]]\ntype = \"affine\"\ndim = 9\n[[layer]]\ntype = \"tanh\"\n[[layer]]\n"
                                     "type = \"affine\"\n" +
                                         of_upper_layer,
                                     "net"),
                       kFeatures, kPdfs, 3});
      const std::vector<float> before(learner.network.values().begin(), learner.network.values().end());
      learner.TrainRound(0, 1);
      const auto moved = [&](nn::LayerRange range) {
        const std::span<const float> now = learner.network.values(range);
        const auto first = static_cast<size_t>(now.data() - learner.network.values().data());
        std::vector<float> change(now.begin(), now.end());
        for (size_t i = 0; i < change.size(); ++i) change[i] -= before[first + i];
        return change;
      };
      return Moved{moved({0, 1}), moved({2, 3})};
    })[0];
  };
  for (const char* rule : {"momentum", "adagrad"}) {
    const Moved whole = train(rule, ""), half = train(rule, "learning-rate-factor = 0.5\n");
    EXPECT_LT(LargestDifference(half.first, whole.first), 1e-6) << rule;
    std::vector<float> halved = whole.second;
    for (float& v : halved) v /= 2;
    EXPECT_LT(LargestDifference(half.second, halved), 1e-6) << rule;
    EXPECT_GT(LargestDifference(whole.second, halved), 1e-3) << rule;
  }
}

TEST(Asgd, RefusesToSendGradientsOfLayersThatAreKeptOrthonormal) {
  const auto start = [](const std::string& rule, const std::string& linear) {
    OnRanks(2, [&](comm::Communicator& comm) {
      Learner("method = \"asgd\"\nserver-update = \"" + rule + "\"\n", comm, "type = \"sgd\"\n",
              {Config::Parse("layer = [{type='residual', layers=[{type='linear', dim=" + std::to_string(kFeatures) +
                                 linear + "}]}, {type='affine'}]",
                             "net"),
               kFeatures, kPdfs, 3});
      return 0;
    });
  };
  for (const std::string rule : {"momentum", "adagrad"}) {
    EXPECT_NO_THROW(start(rule, ""));
    try {
      start(rule, ", orthonormal=true");
      ADD_FAILURE() << "taken";
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find("layer 'residual1'"), std::string::npos) << e.what();
    }
  }
  EXPECT_NO_THROW(start("sum", ", orthonormal=true"));
  EXPECT_NO_THROW(start("momentum", ", orthonormal=true, learning-rate-factor=0")) << "frozen, it stays as it is";
}

TEST(Asgd, RefusesPoolsThatCannotBe) {
  for (const std::string keys : {"dedicated-servers = true\n", "servers = 2\ndedicated-servers = true\n",
                                 "servers = 3\n", "overlap = true\nstaleness-bound = 2\n"}) {
    EXPECT_THROW(OnRanks(2,
                         [&](comm::Communicator& comm) {
                           Learner("method = \"asgd\"\n" + keys, comm);
                           return 0;
                         }),
                 UsageError)
        << keys;
  }
}

}  // namespace
}  // namespace antiphon::parallel
