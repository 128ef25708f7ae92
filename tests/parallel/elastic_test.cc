// Elastic averaging and ADMM on problems whose course is known.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "parallel/small_learner.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

constexpr const char* kSgd = "type = \"sgd\"\n";

void Nothing(std::span<const float>, std::span<float> g) { std::fill(g.begin(), g.end(), 0.0f); }

void SetAll(Learner& learner, float value) {
  for (nn::Parameter* p : learner.network.parameters()) {
    for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] = value;
  }
  learner.network.MarkChanged();
}

TEST(Easgd, WithoutGradientsWorkersAndCentreMeetAndNothingIsLost) {
  const auto ends = OnRanks(3, [](comm::Communicator& comm) {
    Learner learner("method = \"easgd\"\nsync-period = 1\nelasticity = 0.9\n", comm, kSgd, MakeRegression());
    const auto centre = static_cast<double>(learner.network.values()[0]);  // that of all ranks
    SetAll(learner, static_cast<float>(comm.rank()));
    double values[] = {0, 0};
    for (int step = 0; step < 60; ++step) learner.StepAlong(Nothing, 0.1);
    values[0] = static_cast<double>(learner.network.values()[0]);
    learner.strategy->AfterEpoch();
    values[1] = static_cast<double>(learner.network.values()[0]);
    return std::vector<double>{centre, values[0], values[1]};
  });
  const double mean = (0 + 1 + 2 + ends[0][0]) / 4;
  for (const auto& end : ends) {
    EXPECT_NEAR(end[1], mean, 1e-5);
    EXPECT_NEAR(end[2], mean, 1e-5);
  }
}

TEST(Easgd, WithoutElasticityWorkersTrainAlone) {
  const auto self = comm::MakeSelfCommunicator();
  Learner alone("method = \"serial\"\n", *self);
  for (int64_t step = 0; step < 9; ++step) alone.Step(Minibatch(step * 2 + 1), step * 2 + 1);
  const auto hashes = OnRanks(2, [](comm::Communicator& comm) {
    Learner learner("method = \"easgd\"\nsync-period = 3\nelasticity = 0\nrate-scaling = \"none\"\n", comm);
    learner.Train(0, 9, comm.rank(), 2);
    return learner.network.Hash();
  });
  EXPECT_EQ(hashes[1], alone.network.Hash());
}

// Workers take turns on the quadratic w²/2: distance of all from its optimum after so many rounds.
double RoundRobin(int workers, double rate, double alpha, int rounds) {
  const auto ends = OnRanks(workers, [&](comm::Communicator& comm) {
    Learner learner(
        fmt::format("method = \"easgd\"\nsync-period = 1\nasynchronous = true\nelasticity = {}\n", alpha * workers),
        comm, kSgd, MakeRegression());
    SetAll(learner, static_cast<float>(comm.rank() + 1));
    for (int round = 0; round < rounds; ++round) {
      for (int turn = 0; turn < comm.world_size(); ++turn) {
        if (turn == comm.rank()) {
          learner.StepAlong([](auto w, auto g) { std::copy(w.begin(), w.end(), g.begin()); }, rate);
        }
        comm.Barrier();
      }
    }
    const double end = std::abs(static_cast<double>(learner.network.values()[0]));
    learner.strategy->Finish();
    return end;
  });
  return *std::max_element(ends.begin(), ends.end());
}

TEST(Easgd, RoundRobinIsStableUpToWholeElasticity) {
  // Pulled at the point of the gradient, ε = 0.5 would diverge for four workers or more beyond α = 0.857.
  for (const int workers : {2, 4}) EXPECT_LT(RoundRobin(workers, 0.5, 0.95, 60), 1e-4) << workers;
}

TEST(Easgd, AnAsynchronousCentreIsSavedWhereItIsBetweenExchanges) {
  const testing::TemporaryFolder folder;
  const auto run = [&](bool load) {
    return OnRanks(3, [&](comm::Communicator& comm) {
      const auto file = folder / ("rank" + std::to_string(comm.rank()));
      Learner learner("method = \"easgd\"\nsync-period = 2\nasynchronous = true\n", comm);
      if (load) {
        learner.Load(file);
      } else {
        // Whoever exchanged last knows what the others do not.
        for (int r = 0; r < 3; ++r) {
          if (r == comm.rank()) learner.Train(0, 4 + r, comm.rank(), 3);
          comm.Barrier();
        }
        learner.strategy->state()->BeforeSave();
        learner.Save(file);
      }
      return learner.End();
    });
  };
  const auto whole = run(false);
  EXPECT_EQ(run(true), whole);
}

TEST(Easgd, AsynchronousWorkersEndAtOneCentre) {
  const auto hashes = OnRanks(3, [](comm::Communicator& comm) {
    Learner learner("method = \"easgd\"\nsync-period = 2\nasynchronous = true\n", comm);
    const uint64_t start = learner.network.Hash();
    learner.Train(0, 10, comm.rank(), 3);
    const uint64_t end = learner.End();
    EXPECT_NE(end, start);
    return end;
  });
  EXPECT_EQ(hashes[1], hashes[0]);
  EXPECT_EQ(hashes[2], hashes[0]);
}

TEST(Easgd, PutsABrokenWorkerBackToTheCentre) {
  const auto sound = OnRanks(2, [](comm::Communicator& comm) {
    Learner learner("method = \"easgd\"\nsync-period = 2\n", comm, kSgd);
    learner.Train(0, 2, comm.rank(), 2);
    if (comm.rank() == 1) learner.network.values()[0] = NAN;
    learner.Train(2, 4, comm.rank(), 2);
    learner.strategy->AfterEpoch();
    double sum = 0;
    for (const float v : learner.network.values()) sum += static_cast<double>(v);
    return std::isfinite(sum) ? 1 : 0;
  });
  EXPECT_EQ(sound[0] + sound[1], 2);
}

// Where the centre is after worker 3 of 4, whose model is finite, but far away, has exchanged last; and that worker.
std::vector<double> WithOneFarAway(const std::string& keys) {
  const auto ends = OnRanks(4, [&](comm::Communicator& comm) {
    Learner learner("method = \"easgd\"\nsync-period = 1\n" + keys, comm, kSgd, MakeRegression());
    const float start = learner.network.values()[0];
    for (int turn = 0; turn < comm.world_size(); ++turn) {
      if (turn == comm.rank() || learner.strategy->synchronous()) {
        const float away = comm.rank() == 3 ? 1000.0f : 0.01f * static_cast<float>(comm.rank() + 1);
        for (float& value : learner.network.values()) value += away;
        learner.StepAlong(Nothing, 0.1);
      }
      if (learner.strategy->synchronous()) break;
      comm.Barrier();
    }
    const double own = static_cast<double>(learner.network.values()[0] - start);
    learner.strategy->Finish();
    return std::vector<double>{static_cast<double>(learner.network.values()[0] - start), own};
  });
  return {ends[3][0], ends[3][1]};
}

TEST(Easgd, WhoIsFarFromTheCentreDoesNotPullIt) {
  for (const std::string keys : {"", "asynchronous = true\n"}) {
    const auto with = WithOneFarAway(keys);
    EXPECT_NEAR(with[0], 0.0125, 1.5e-3) << keys;  // 0.9/4 · (0.01 + 0.02 + 0.03), less what moved before one's turn
    EXPECT_LT(with[1], 0.1) << keys << "back at the centre";
    const auto without = WithOneFarAway(keys + "outlier-factor = 0\n");
    EXPECT_GT(without[0], 100) << keys;
    EXPECT_GT(without[1], 500) << keys;
  }
}

// More than half of them unusable: no centre can be trusted that they came from.
TEST(Easgd, AllGoBackWhereMostWorkersAreBroken) {
  for (const std::string keys : {"", "asynchronous = true\n"}) {
    for (const int broken : {1, 2, 3}) {
      const auto leaves_out = OnRanks(4, [&](comm::Communicator& comm) {
        Learner learner("method = \"easgd\"\nsync-period = 1\n" + keys, comm, kSgd);
        for (int exchange = 0; exchange < 2; ++exchange) {
          if (comm.rank() < broken) learner.network.values()[0] = NAN;
          learner.StepAlong(Nothing, 0.1);
          comm.Barrier();
        }
        const bool left_out = learner.strategy->LeaveOut();
        learner.strategy->ResetState();
        EXPECT_TRUE(learner.strategy->LeaveOut()) << keys;
        learner.strategy->Finish();
        return left_out ? 1 : 0;
      });
      for (const int left_out : leaves_out) EXPECT_EQ(left_out, broken < 3 ? 1 : 0) << keys << broken;
    }
  }
}

TEST(Easgd, RefusesWhatCannotWork) {
  const auto comm = comm::MakeSelfCommunicator();
  EXPECT_THROW(Learner("method = \"eamsgd\"\n", *comm, kSgd), UsageError);
  EXPECT_NO_THROW(Learner("method = \"eamsgd\"\n", *comm, "type = \"sgd\"\nmomentum = 0.9\n"));
  EXPECT_THROW(Learner("method = \"easgd\"\nelasticity = 1.5\n", *comm), UsageError);
  EXPECT_THROW(Learner("method = \"easgd\"\nsync-period = 0\n", *comm), UsageError);
}

// Rank k pulls to the optimum k with curvature 1 + k; consensus and own value after some rounds.
std::vector<std::vector<double>> Consensus(int workers, const std::string& keys, int rounds, int period) {
  return OnRanks(workers, [&](comm::Communicator& comm) {
    Learner learner(fmt::format("sync-period = {}\n{}", period, keys), comm, kSgd, MakeRegression());
    const auto k = static_cast<float>(comm.rank());
    for (int step = 0; step < rounds * period; ++step) {
      learner.StepAlong(
          [&](auto w, auto g) {
            for (size_t i = 0; i < w.size(); ++i) g[i] = (1 + k) * (w[i] - k);
          },
          0.2);
    }
    const auto own = static_cast<double>(learner.network.values()[0]);
    learner.strategy->AfterEpoch();
    return std::vector<double>{static_cast<double>(learner.network.values()[0]), own};
  });
}

TEST(Admm, FindsTheJointOptimumWhereAveragingDoesNot) {
  // Minimum of Σ (1 + k)/2·(w − k)² over k = 0, 1, 2: (0 + 2 + 6)/6.
  const double joint = 8.0 / 6;
  for (const char* strength : {"rho = 1\n", "pull = 6\n"}) {
    const auto admm = Consensus(3, fmt::format("method = \"admm\"\npull-every = 1\n{}", strength), 60, 30);
    for (const auto& end : admm) {
      EXPECT_NEAR(end[0], joint, 1e-4) << strength;
      EXPECT_NEAR(end[1], joint, 1e-3) << strength;
    }
  }
  const auto averaging = Consensus(3, "method = \"averaging\"\nrate-scaling = \"none\"\n", 60, 30);
  EXPECT_GT(std::abs(averaging[0][0] - joint), 0.1);
}

TEST(Admm, BalancesAWrongPenalty) {
  const auto balanced = Consensus(3, "method = \"admm\"\npull-every = 1\nrho = 0.001\n", 40, 30);
  const auto fixed = Consensus(3, "method = \"admm\"\npull-every = 1\nrho = 0.001\nbalance = false\n", 40, 30);
  EXPECT_LT(std::abs(balanced[0][0] - 8.0 / 6), 0.01);
  EXPECT_GT(std::abs(fixed[0][0] - 8.0 / 6), 0.05);
}

TEST(Admm, TakesTheConstraintOfSeveralStepsAtOnceForASmallError) {
  const double joint = 8.0 / 6;
  const auto averaging = Consensus(3, "method = \"averaging\"\nrate-scaling = \"none\"\n", 60, 30);
  const auto seldom = Consensus(3, "method = \"admm\"\nrho = 1\npull-every = 4\n", 60, 30);
  EXPECT_LT(std::abs(seldom[0][0] - joint), 0.3 * std::abs(averaging[0][0] - joint));
}

// The consensus learns from what the workers do on their own: a strong constraint keeps them from doing it.
TEST(Admm, StrongPullHoldsBack) {
  const auto after_one_round = [](const std::string& pull) {
    const std::string keys = "method = \"admm\"\npull-every = 1\nbalance = false\npull = " + pull + "\n";
    return std::abs(Consensus(2, keys, 1, 8)[0][0] - Consensus(2, keys, 0, 8)[0][0]);
  };
  const double weak = after_one_round("0.01"), usual = after_one_round("0.3"), strong = after_one_round("30");
  EXPECT_GT(usual, 0.85 * weak);
  EXPECT_LT(strong, 0.5 * weak);
}

TEST(Elastic, SeveralWorkersTakeLongerStepsByDefault) {
  // Two workers share the data: without the factor, the common model would go half as far in an epoch.
  for (const char* method : {"easgd", "admm"}) {
    const auto described = OnRanks(2, [&](comm::Communicator& comm) {
      Learner learner(fmt::format("method = \"{}\"\n", method), comm, kSgd);
      return fmt::format("{}", fmt::join(learner.strategy->Describe(), "; "));
    });
    EXPECT_NE(described[0].find("learning rate × 2 (auto"), std::string::npos) << described[0];
  }
}

TEST(Admm, MultipliersAddUpToNothing) {
  const testing::TemporaryFolder folder;
  OnRanks(3, [&](comm::Communicator& comm) {
    Learner learner("method = \"admm\"\nsync-period = 4\n", comm);
    learner.Train(0, 8, comm.rank(), 3);
    learner.Save(folder / ("rank" + std::to_string(comm.rank())));
    return 0;
  });
  std::vector<double> sum;
  double largest = 0;
  for (int r = 0; r < 3; ++r) {
    const auto lambda = SafetensorsReader(folder / ("rank" + std::to_string(r))).ReadFloats("strategy.lambda");
    sum.resize(lambda.size(), 0.0);
    for (size_t i = 0; i < lambda.size(); ++i) {
      sum[i] += static_cast<double>(lambda[i]);
      largest = std::max(largest, std::abs(static_cast<double>(lambda[i])));
    }
  }
  EXPECT_GT(largest, 1e-5);
  for (const double s : sum) EXPECT_NEAR(s, 0, 1e-5 * std::max(1.0, largest));
}

TEST(NaturalGradientAveraging, FirstTakesTheBestWorkerAndCombinesInTheEnd) {
  const std::string optimizer = "type = \"natural-gradient\"\n[step]\nmax-change = 0.5\n";
  const auto run = [&](const std::string& keys) {
    return OnRanks(3, [&](comm::Communicator& comm) {
      Learner learner("method = \"natural-gradient-averaging\"\nsync-period = 4\nwarmup-epochs = 0\n" + keys, comm,
                      optimizer);
      learner.Train(0, 250, comm.rank(), 3);
      learner.strategy->AfterEpoch();
      const double last = learner.Step(Minibatch::Joined({0, 1, 2, 3, 4, 5}), 0, 0.0).loss.loss();
      learner.strategy->Finish();
      const double combined = learner.Step(Minibatch::Joined({0, 1, 2, 3, 4, 5}), 0, 0.0).loss.loss();
      return std::vector<double>{last, combined};
    });
  };
  // Chosen on the first frames of each worker: never worse there than the last model.
  const auto ends = run("combine = 8\ncombine-frames = 32\n");
  EXPECT_LE(ends[0][1], ends[0][0] + 1e-6);
  EXPECT_EQ(ends[0], ends[1]);
}

TEST(NaturalGradientAveraging, OneWorkerIsNaturalGradientAlone) {
  const auto comm = comm::MakeSelfCommunicator();
  const std::string optimizer = "type = \"natural-gradient\"\n[step]\nmax-change = 0.5\n";
  Learner serial("method = \"serial\"\n", *comm, optimizer);
  Learner averaging("method = \"natural-gradient-averaging\"\n", *comm, optimizer);
  serial.Train(0, 20);
  averaging.Train(0, 20);
  EXPECT_EQ(averaging.End(), serial.End());
}

}  // namespace
}  // namespace antiphon::parallel
