// Periodic and one-shot model averaging, and block momentum, against what theory says of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/replica_average.h"
#include "parallel/small_learner.h"
#include "parallel/small_sequences.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

constexpr const char* kPlainSgd = "type = \"sgd\"\n";

std::vector<std::vector<float>> Values(int workers, const std::string& keys, int64_t steps,
                                       const std::string& optimizer = kPlainSgd, bool same_data = false) {
  return OnRanks(workers, [&](comm::Communicator& comm) {
    Learner learner(keys, comm, optimizer);
    if (same_data) {
      learner.Train(0, steps);
    } else {
      learner.Train(0, steps, comm.rank(), workers);
    }
    learner.strategy->AfterEpoch();
    return learner.Values();
  });
}

TEST(Averaging, AfterEveryStepIsSynchronousSgd) {
  for (const char* scaling : {"none", "linear"}) {
    const std::string keys = fmt::format("rate-scaling = \"{}\"\n", scaling);
    const auto averaged = Values(4, "method = \"averaging\"\nsync-period = 1\n" + keys, 12);
    const auto summed = Values(4, "method = \"ssgd\"\n" + keys, 12);
    EXPECT_LT(LargestDifference(averaged[0], summed[0]), 1e-6) << scaling;
  }
}

TEST(Averaging, EqualShardsGiveTheSingleModelToTheBit) {
  const auto self = comm::MakeSelfCommunicator();
  Learner one("method = \"serial\"\n", *self, "type = \"sgd\"\nmomentum = 0.5\n");
  one.Train(0, 12);
  const auto averaged = Values(4, "method = \"averaging\"\nsync-period = 3\nrate-scaling = \"none\"\n", 12,
                               "type = \"sgd\"\nmomentum = 0.5\n", true);
  EXPECT_EQ(averaged[0], one.Values());
}

// Each rank pulls the parameters to its own optimum with its own curvature.
void PullTo(float optimum, float curvature, std::span<const float> w, std::span<float> g) {
  for (size_t i = 0; i < w.size(); ++i) g[i] = curvature * (w[i] - optimum);
}

std::vector<std::vector<float>> Quadratics(int workers, const std::string& keys, int64_t steps, double rate) {
  return OnRanks(workers, [&](comm::Communicator& comm) {
    Learner learner(keys, comm, kPlainSgd, MakeRegression());
    const auto r = static_cast<float>(comm.rank());
    for (int64_t step = 0; step < steps; ++step) {
      learner.StepAlong([&](auto w, auto g) { PullTo(r, 1.0f + r, w, g); }, rate);
    }
    learner.strategy->AfterEpoch();
    return learner.Values();
  });
}

TEST(Averaging, OnceAtTheEndGivesTheMeanOfTheOptimaNotTheirJointOptimum) {
  // Optima 0 and 1 with curvatures 1 and 2: their mean is 1/2, the optimum of the sum 2/3.
  const auto once = Quadratics(2, "method = \"averaging\"\nsync-period = 0\nrate-scaling = \"none\"\n", 400, 0.1);
  const auto always = Quadratics(2, "method = \"averaging\"\nsync-period = 1\nrate-scaling = \"none\"\n", 400, 0.1);
  EXPECT_NEAR(once[0][0], 0.5, 1e-5);
  EXPECT_NEAR(always[0][0], 2.0 / 3, 1e-5);
  EXPECT_EQ(once[1], once[0]);
}

TEST(Averaging, GoesOnFromItsOwnModelAfterAnEvaluationInBetween) {
  const auto values = OnRanks(2, [](comm::Communicator& comm) {
    std::vector<std::vector<float>> ends;
    for (const bool evaluate : {false, true}) {
      Learner learner("method = \"averaging\"\nsync-period = 0\n", comm, kPlainSgd);
      learner.Train(0, 4, comm.rank(), 2);
      if (evaluate) learner.strategy->AfterEpoch();
      learner.Train(4, 8, comm.rank(), 2);
      learner.strategy->Finish();
      ends.push_back(learner.Values());
    }
    return LargestDifference(ends[0], ends[1]);
  });
  EXPECT_EQ(values[0], 0);
}

TEST(Averaging, RefusesAPeriodLongerThanTheRun) {
  const auto comm = comm::MakeSelfCommunicator();
  EXPECT_THROW(Learner("method = \"averaging\"\nsync-period = 301\n", *comm), UsageError);
  EXPECT_NO_THROW(Learner("method = \"averaging\"\nsync-period = 300\n", *comm));
  EXPECT_THROW(Learner("method = \"averaging\"\nsync-frames = 5000\n", *comm), UsageError);
}

// Averages {rank + 1, …} of several ranks, one of which is spoilt.
std::vector<std::vector<float>> AverageWith(int workers, float spoilt, bool usable, double outlier_factor) {
  return OnRanks(workers, [&](comm::Communicator& comm) {
    std::vector<float> values(70, static_cast<float>(comm.rank() + 1));
    if (comm.rank() == workers - 1) values[33] = spoilt;
    const std::vector<float> start(70, 0.0f);
    AverageReplicas(comm, 10, usable || comm.rank() + 1 < workers, outlier_factor, start, values);
    return values;
  });
}

TEST(Averaging, LeavesOutWhoWentAstray) {
  for (const auto& [spoilt, usable] :
       {std::pair(NAN, true), std::pair(INFINITY, true), std::pair(1e6f, true), std::pair(4.0f, false)}) {
    const auto values = AverageWith(4, spoilt, usable, 10);
    for (const auto& mine : values) {
      for (const float v : mine) EXPECT_FLOAT_EQ(v, 2.0f) << spoilt;
    }
  }
  // Moving far is no reason where it is allowed.
  EXPECT_GT(AverageWith(4, 1e6f, true, 0)[0][33], 1e5f);
}

// Of two, one is enough to go on with; when most are spoilt, the run has to fall back.
TEST(Averaging, LeavesOutOneOfTwo) {
  for (const auto& [spoilt, usable] : {std::pair(NAN, true), std::pair(-INFINITY, true), std::pair(4.0f, false)}) {
    const auto values = AverageWith(2, spoilt, usable, 10);
    for (const auto& mine : values) EXPECT_EQ(mine, std::vector<float>(70, 1.0f)) << spoilt;
  }
  for (const int broken : {1, 2}) {
    // No bool: a vector's bools share bytes.
    const auto hopeless = OnRanks(3, [&](comm::Communicator& comm) -> int {
      std::vector<float> values(5, comm.rank() < broken ? NAN : 1.0f);
      return AverageReplicas(comm, 1, true, 10, std::vector<float>(5, 0.0f), values).hopeless;
    });
    EXPECT_EQ(hopeless[0], broken == 2 ? 1 : 0);
  }
}

constexpr const char* kPeriodicMethods[] = {"averaging", "bmuf", "easgd", "admm", "natural-gradient-averaging"};

// A worker in the middle of a block, which saves its state in `file`. Those whose number has its bit in `broken` wait
// to be replaced.
std::unique_ptr<Learner> SavedWithinABlock(const std::string& method, comm::Communicator& comm, int broken,
                                           const std::filesystem::path& file) {
  auto learner = std::make_unique<Learner>("method = \"" + method + "\"\nsync-period = 8\n", comm, kPlainSgd);
  learner->Train(0, 3, comm.rank(), comm.world_size());
  if (((broken >> comm.rank()) & 1) != 0) {
    EXPECT_TRUE(learner->strategy->LeaveOut());
    for (float& v : learner->network.values()) v = NAN;
    learner->network.MarkChanged();
  }
  learner->Save(file);
  return learner;
}

// As a run does that falls back. The block began with the initial model.
TEST(Averaging, NobodyFallsBackToAReplicaThatWaitsToBeReplaced) {
  const std::vector<float> start = Values(2, "method = \"averaging\"\n", 0)[0];
  for (const std::string method : kPeriodicMethods) {
    for (const int broken : {0, 1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{}, broken {}", method, broken));
      const testing::TemporaryFolder folder;
      const auto values = OnRanks(2, [&](comm::Communicator& comm) {
        const auto file = folder / fmt::format("rank{}", comm.rank());
        const auto learner = SavedWithinABlock(method, comm, broken, file);
        learner->Load(file);
        learner->strategy->ResetState();
        return learner->Values();
      });
      EXPECT_EQ(values[1], values[0]);
      EXPECT_EQ(values[0] == start, broken != 0);
    }
  }
}

// At an epoch's end that made things worse, whatever the guard has said of a replica since it was exchanged.
TEST(Averaging, TheBestModelComesBackAsItIs) {
  for (const std::string method : kPeriodicMethods) {
    const testing::TemporaryFolder folder;
    const auto kept = OnRanks(2, [&](comm::Communicator& comm) -> int {
      const auto file = folder / fmt::format("rank{}", comm.rank());
      const auto learner = SavedWithinABlock(method, comm, 1, file);
      learner->Load(file);
      learner->EndEpoch();
      EXPECT_TRUE(comm.rank() != 0 || learner->strategy->LeaveOut());
      const std::vector<float> best(learner->network.num_values(), 0.25f);
      std::copy(best.begin(), best.end(), learner->network.values().begin());
      learner->network.MarkChanged();
      learner->strategy->ResetState();
      const std::span<const float> values = std::as_const(learner->network).values();
      return std::equal(values.begin(), values.end(), best.begin()) ? 1 : 0;
    });
    EXPECT_EQ(kept, std::vector<int>(2, 1)) << method;
  }
}

TEST(Averaging, TellsWhenModelsAreExchanged) {
  const auto comm = comm::MakeSelfCommunicator();
  const auto told = [&](const std::string& method) {
    return Learner("method = \"" + method + "\"\nsync-period = 4\n", *comm).strategy->Describe()[0];
  };
  for (const char* method : {"averaging", "bmuf", "natural-gradient-averaging"}) {
    EXPECT_EQ(told(method), "1 workers exchange models every 4 steps (64 frames of a worker) and at epoch ends");
  }
  for (const char* method : {"easgd", "eamsgd", "admm"}) {
    EXPECT_EQ(told(method), "1 workers exchange models every 4 steps (64 frames of a worker)");
  }
}

TEST(Averaging, WeighsByFrames) {
  const auto values = OnRanks(3, [](comm::Communicator& comm) {
    std::vector<float> mine(5, static_cast<float>(comm.rank()));
    const std::vector<float> start(5, -1.0f);
    AverageReplicas(comm, comm.rank() == 2 ? 60 : 20, true, 0, start, mine);
    return mine;
  });
  for (const float v : values[1]) EXPECT_NEAR(v, 0.2 * 0 + 0.2 * 1 + 0.6 * 2, 1e-6);
}

TEST(Bmuf, WithoutBlockMomentumIsAveragingToTheBit) {
  const std::string keys = "sync-period = 3\nrate-scaling = \"none\"\nmomentum-at-sync = \"keep\"\n";
  const std::string optimizer = "type = \"sgd\"\nmomentum = 0.5\n";
  EXPECT_EQ(Values(3, "method = \"bmuf\"\nblock-momentum = 0\n" + keys, 12, optimizer),
            Values(3, "method = \"averaging\"\n" + keys, 12, optimizer));
}

// How large gradients are is true of the mean model too; where they pointed is not.
TEST(MomentumAtSync, ResetForgetsAdamsMeanAloneAndNotTheSizesOfGradients) {
  struct AdamState {
    std::vector<float> mean, square;
    int64_t step = 0, mean_step = 0;
  };
  const auto after_an_exchange = [](const std::string& method, const std::string& at_sync) {
    return OnRanks(2, [&](comm::Communicator& comm) {
      const testing::TemporaryFolder folder;
      Learner learner("method = \"" + method + "\"\nsync-period = 3\nmomentum-at-sync = \"" + at_sync + "\"\n", comm,
                      "type = \"adam\"\n");
      learner.Train(0, 3, comm.rank(), 2);
      learner.Save(folder / "state");
      const SafetensorsReader reader(folder / "state");
      const auto values = [&](const std::string& name) {
        Matrix row(1, static_cast<int64_t>(learner.network.num_values()));
        reader.ReadInto(name, row);
        return std::vector<float>(row.data(), row.data() + row.size());
      };
      return AdamState{values("optimizermean"), values("optimizersquare"), reader.ReadInts("optimizerstep").at(0),
                       reader.ReadInts("optimizermean-step").at(0)};
    })[1];
  };
  for (const char* method : {"averaging", "bmuf"}) {
    SCOPED_TRACE(method);
    const AdamState kept = after_an_exchange(method, "keep"), reset = after_an_exchange(method, "reset");
    EXPECT_EQ(kept.mean_step, 3);
    EXPECT_NE(kept.mean, std::vector<float>(kept.mean.size(), 0.0f));
    EXPECT_EQ(reset.mean_step, 0);
    EXPECT_EQ(reset.mean, std::vector<float>(kept.mean.size(), 0.0f));
    EXPECT_EQ(reset.step, 3);
    EXPECT_EQ(reset.square, kept.square);
    EXPECT_NE(reset.square, std::vector<float>(kept.square.size(), 0.0f));
  }
}

// By what a block begins farther than the last, when every block pulls by the same.
double StepPerBlock(const std::string& keys) {
  const auto values = OnRanks(2, [&](comm::Communicator& comm) {
    Learner learner("method = \"bmuf\"\nsync-period = 2\n" + keys, comm, kPlainSgd, MakeRegression());
    std::vector<double> model;
    for (int block = 0; block < 60; ++block) {
      for (int step = 0; step < 2; ++step) {
        learner.StepAlong([](auto, auto g) { std::fill(g.begin(), g.end(), -0.5f); }, 0.01);
      }
      model.push_back(static_cast<double>(learner.network.values()[0]));
    }
    return model.back() - model[model.size() - 2];
  });
  return values[0];
}

TEST(Bmuf, MovesByTheGeometricSumOfAConstantBlock) {
  // G = 2 · 0.01 · 0.5 per block; the step becomes ζ/(1 − η)·G, with look-ahead or without.
  for (const char* nesterov : {"true", "false"}) {
    const std::string keys = fmt::format("nesterov = {}\nblock-momentum = 0.75\nblock-learning-rate = 0.8\n", nesterov);
    EXPECT_NEAR(StepPerBlock(keys), 0.8 / 0.25 * 0.01, 2e-4) << nesterov;
  }
}

// Epochs of five steps with blocks of four: with a constant gradient the last step moves the model by a quarter of what
// the four did.
TEST(Bmuf, ABlockCutShortMovesByItsShare) {
  const auto moved = OnRanks(2, [&](comm::Communicator& comm) {
    Learner learner("method = \"bmuf\"\nsync-period = 4\nblock-momentum = 0.75\nnesterov = false\n", comm, kPlainSgd,
                    MakeRegression());
    const auto steps = [&](int count) {
      for (int step = 0; step < count; ++step) {
        learner.StepAlong([](auto, auto g) { std::fill(g.begin(), g.end(), -0.5f); }, 0.01);
      }
      learner.strategy->AfterEpoch();
      return learner.network.values()[0];
    };
    for (int epoch = 0; epoch < 40; ++epoch) steps(5);
    const float before = steps(0), whole = steps(4), part = steps(1);
    return std::pair(whole - before, part - whole);
  });
  EXPECT_NEAR(moved[0].first, 4 * 0.01 * 0.5 / 0.25, 2e-4);
  EXPECT_NEAR(moved[0].second, moved[0].first / 4, 2e-4);
}

TEST(Bmuf, AWarmStartIsSynchronousSgd) {
  const auto train = [](const std::string& keys) {
    return OnRanks(3, [&](comm::Communicator& comm) {
      Learner learner(keys, comm, kPlainSgd);
      std::vector<uint64_t> epochs;
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        learner.Train(8 * epoch, 8 * epoch + 8, comm.rank(), 3);
        learner.EndEpoch();
        epochs.push_back(learner.network.Hash());
      }
      return epochs;
    })[0];
  };
  const auto warm = train("method = \"bmuf\"\nsync-period = 4\nwarm-start-epochs = 2\n");
  const auto synchronous = train("method = \"ssgd\"\n");
  EXPECT_EQ(warm[0], synchronous[0]);
  EXPECT_EQ(warm[1], synchronous[1]);
  EXPECT_NE(warm[2], synchronous[2]);
}

// In the middle of utterances, whose states are those of the synchronous workers.
TEST(WarmStart, ContinuesBitForBitOnStreams) {
  const testing::TemporaryFolder folder;
  for (const std::string method : {"bmuf", "asgd"}) {
    const auto train = [&](bool again) {
      return OnRanks(2, [&](comm::Communicator& comm) {
        const auto file = folder / fmt::format("{}-{}", method, comm.rank());
        StreamLearner learner("method = \"" + method + "\"\nwarm-start-epochs = 1\n", comm, kSmallLstm);
        if (again) {
          learner.Load(file);
        } else {
          learner.TrainStreams(0, 3);
          learner.Save(file);
        }
        learner.TrainStreams(3, 6);
        return learner.network.Hash();
      });
    };
    const auto whole = train(false);
    EXPECT_EQ(train(true), whole) << method;
  }
}

// That of before the first step has none.
TEST(WarmStart, ACheckpointWithoutStatesLeavesNoneOfANewerModel) {
  const testing::TemporaryFolder folder;
  for (const std::string method : {"ssgd\"\n", "bmuf\"\nwarm-start-epochs = 1\n"}) {
    const auto train = [&](int64_t given_up) {
      return OnRanks(2, [&](comm::Communicator& comm) {
        const auto file = folder / fmt::format("rank{}", comm.rank());
        StreamLearner learner("method = \"" + method, comm, kSmallLstm);
        learner.Save(file);
        learner.TrainStreams(0, given_up);
        learner.Load(file);
        learner.TrainStreams(3, 6);
        return learner.network.Hash();
      });
    };
    EXPECT_EQ(train(3), train(0)) << method;
  }
}

TEST(Bmuf, HasNoMomentumWithOneWorkerAndRefusesToHaveNoBlocks) {
  const auto comm = comm::MakeSelfCommunicator();
  const auto lines = Learner("method = \"bmuf\"\n", *comm).strategy->Describe();
  EXPECT_NE(lines.back().find("block momentum 0,"), std::string::npos) << lines.back();
  EXPECT_THROW(Learner("method = \"bmuf\"\nsync-period = 0\n", *comm), UsageError);
}

}  // namespace
}  // namespace antiphon::parallel
