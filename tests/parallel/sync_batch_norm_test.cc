// Batch normalisation over the frames of all workers: against double arithmetic on the whole minibatch, and against one
// worker that has it.
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/simulated_world.h"
#include "nn/rank_sums.h"
#include "nn/side_targets.h"
#include "parallel/small_learner.h"
#include "parallel/small_sequences.h"

namespace antiphon::parallel {
namespace {

constexpr const char* kSynchronised = "method = \"ssgd\"\nrate-scaling = \"none\"\nsync-batch-norm = true\n";
constexpr const char* kEachAlone = "method = \"ssgd\"\nrate-scaling = \"none\"\n";
constexpr const char* kSerial = "method = \"serial\"\n";
constexpr const char* kNoMomentum = "type = \"sgd\"\n";

nn::Network Normalising() {
  return {
      Config::Parse("[[layer]]\ntype = \"batch-norm\"\n[[layer]]\ntype = \"affine\"\ndim = 9\n"
                    "[[layer]]\ntype = \"batch-norm\"\naffine = true\ntarget-rms = 0.7\n[[layer]]\ntype = \"tanh\"\n"
                    "[[layer]]\ntype = \"residual\"\nlayers = [{type = \"affine\", dim = 9}, "
                    "{type = \"batch-norm\", columns = 5}]\n[[layer]]\ntype = \"affine\"\n",
                    "net"),
      kFeatures, kPdfs, 3};
}

class SumsOf : public nn::RankSums {
 public:
  explicit SumsOf(comm::Communicator& comm) : comm_(comm) {}
  void Sum(std::span<double> values) override { comm_.AllReduce(values); }

 private:
  comm::Communicator& comm_;
};

// Rows of a whole minibatch, in double, with far from zero means.
struct WholeBatch {
  static constexpr int64_t kRows = 23;
  static constexpr int64_t kCols = 3;
  double x[kRows][kCols];
  double dy[kRows][kCols];
  WholeBatch() {
    Rng rng(5, 1);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kCols; ++c) {
        x[r][c] = static_cast<double>(static_cast<float>(rng.Normal() * 0.5 + 40.0 * static_cast<double>(c)));
        dy[r][c] = static_cast<double>(static_cast<float>(rng.Normal()));
      }
    }
  }
};

constexpr double kScaleOf = 1.5, kOffsetOf = -0.25, kRms = 0.7, kEpsilon = 1e-3;

// What the layer makes of the whole minibatch, by the textbook.
struct Textbook {
  double y[WholeBatch::kRows][WholeBatch::kCols];
  double dx[WholeBatch::kRows][WholeBatch::kCols];
  explicit Textbook(const WholeBatch& m) {
    constexpr auto n = static_cast<double>(WholeBatch::kRows);
    for (int64_t c = 0; c < WholeBatch::kCols; ++c) {
      double mean = 0, variance = 0;
      for (const auto& row : m.x) mean += row[c] / n;
      for (const auto& row : m.x) variance += (row[c] - mean) * (row[c] - mean) / n;
      const double s = kRms / std::sqrt(variance + kEpsilon);
      double d_mean = 0, d_variance = 0;
      for (int64_t r = 0; r < WholeBatch::kRows; ++r) {
        const double dz = m.dy[r][c] * kScaleOf;
        y[r][c] = kScaleOf * s * (m.x[r][c] - mean) + kOffsetOf;
        d_variance += dz * (m.x[r][c] - mean) * -0.5 * s / (variance + kEpsilon);
        d_mean += -dz * s;
      }
      for (int64_t r = 0; r < WholeBatch::kRows; ++r) {
        dx[r][c] = m.dy[r][c] * kScaleOf * s + d_variance * 2 * (m.x[r][c] - mean) / n + d_mean / n;
      }
    }
  }
};

// First rows of a rank of three; rank 1 has none.
std::pair<int64_t, int64_t> RowsOf(int rank) {
  constexpr int64_t kFirst[] = {0, 15, 15, WholeBatch::kRows};
  return {kFirst[rank], kFirst[rank + 1] - kFirst[rank]};
}

// y and dx of a rank's rows; gradient: of scale and offset.
void ExpectTextbook(const WholeBatch& whole, const Textbook& expected, comm::Communicator& comm) {
  nn::Network layer(
      Config::Parse("[[layer]]\ntype = \"batch-norm\"\naffine = true\ntarget-rms = 0.7\nepsilon = 1e-3\n", "net"),
      WholeBatch::kCols, 0, 1);
  const auto parameters = layer.parameters();
  for (float& v : parameters[0]->value.Row(0)) v = kScaleOf;
  for (float& v : parameters[1]->value.Row(0)) v = kOffsetOf;
  const auto [first, rows] = RowsOf(comm.rank());
  Matrix x(rows, WholeBatch::kCols), dy(rows, WholeBatch::kCols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < WholeBatch::kCols; ++c) {
      x(r, c) = static_cast<float>(whole.x[first + r][c]);
      dy(r, c) = static_cast<float>(whole.dy[first + r][c]);
    }
  }
  SumsOf sums(comm);
  nn::ExecContext context;
  context.training = true;
  context.ranks = &sums;
  nn::Workspace workspace;
  const MatrixView y = layer.Forward(context, x, workspace);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < WholeBatch::kCols; ++c) EXPECT_NEAR(y(r, c), expected.y[first + r][c], 2e-5);
  }
  nn::NullGradientSink nothing;
  const MatrixView dx = layer.Backward(context, dy, workspace, nothing, true);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < WholeBatch::kCols; ++c) EXPECT_NEAR(dx(r, c), expected.dx[first + r][c], 5e-5);
  }
}

TEST(SyncBatchNorm, IsTheTextbooksOnTheWholeMinibatch) {
  const WholeBatch whole;
  const Textbook expected(whole);
  OnRanks(3, [&](comm::Communicator& comm) {
    ExpectTextbook(whole, expected, comm);
    return 0;
  });
}

std::vector<int64_t> JoinedNumbers(int64_t step, int workers) {
  std::vector<int64_t> numbers;
  for (int r = 0; r < workers; ++r) numbers.push_back(step * workers + r);
  return numbers;
}

std::vector<float> Statistics(const nn::Network& network) {
  std::vector<float> all;
  for (const nn::Parameter* p : network.buffers()) {
    all.insert(all.end(), p->value.data(), p->value.data() + p->value.size());
  }
  return all;
}

TEST(SyncBatchNorm, SeveralWorkersAreOneWithTheJoinedMinibatch) {
  const auto self = comm::MakeSelfCommunicator();
  for (const int workers : {2, 3, 4}) {
    Learner one(kSerial, *self, kNoMomentum, Normalising());
    for (int64_t step = 0; step < 12; ++step) one.Step(Minibatch::Joined(JoinedNumbers(step, workers)), step);
    const auto train = [&](const char* keys) {
      return OnRanks(workers, [&](comm::Communicator& comm) {
        Learner learner(keys, comm, kNoMomentum, Normalising());
        learner.Train(0, 12, comm.rank(), workers);
        return std::pair(learner.Values(), Statistics(learner.network));
      });
    };
    const auto together = train(kSynchronised), alone = train(kEachAlone);
    EXPECT_LT(LargestDifference(together[0].first, one.Values()), 1e-5) << workers << " workers";
    EXPECT_GT(LargestDifference(alone[0].first, one.Values()), 1e-3) << "nothing to synchronise";
    const std::vector<float> expected = Statistics(one.network);
    for (const auto& [values, statistics] : together) {
      EXPECT_EQ(values, together[0].first);
      EXPECT_EQ(statistics, together[0].second);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(statistics[i], expected[i], 1e-4 * (1 + std::abs(expected[i])));
      }
    }
  }
}

TEST(SyncBatchNorm, RepeatsItselfAlsoOnASimulatedClusterAndWithADividedOptimiser) {
  const auto train = [](const std::string& keys) {
    return OnRanks(4, [&](comm::Communicator& comm) {
      Learner learner(keys, comm, "type = \"adam\"\n", Normalising());
      learner.Train(0, 8, comm.rank(), 4);
      return learner.End();
    });
  };
  const auto once = train(kSynchronised);
  EXPECT_EQ(train(kSynchronised), once);
  EXPECT_EQ(train(std::string(kSynchronised) + "divide = \"gradients\"\n"), once);
  std::vector<uint64_t> simulated(4);
  comm::RunSimulated(4, comm::ClusterOptions{}, [&](comm::Communicator& comm) {
    Learner learner(kSynchronised, comm, "type = \"adam\"\n", Normalising());
    learner.Train(0, 8, comm.rank(), 4);
    simulated[static_cast<size_t>(comm.rank())] = learner.End();
  });
  EXPECT_EQ(simulated, once);
}

// Padding counts for nothing, and workers may have no frames at all.
TEST(SyncBatchNorm, TakesPaddedChunksAndEmptyMinibatches) {
  constexpr const char* toml =
      "layer = [{type='tdnn', dim=9}, {type='batch-norm'}, {type='relu'}, {type='tdnn', dim=10, offsets=[-2, 0, 1]}, "
      "{type='batch-norm', affine=true}, {type='tanh'}, {type='affine'}]";
  const auto train = [&](int empty) {
    return OnRanks(3, [&](comm::Communicator& comm) {
      StreamLearner learner(kSynchronised, comm, toml);
      learner.TrainStreams(0, 5);
      learner.StepStreams(5, 15 + comm.rank(), comm.rank() == empty ? 0 : kChunkOutputs);
      for (const float v : learner.network.values()) EXPECT_TRUE(std::isfinite(v));
      return learner.End();
    });
  };
  for (const int empty : {-1, 0, 2}) {
    const auto hashes = train(empty);
    for (const uint64_t hash : hashes) EXPECT_EQ(hash, hashes[0]) << "rank " << empty << " without frames";
  }
}

// The first step of a worker, with this layer between two others.
std::vector<float> FirstStep(const std::string& parallel, comm::Communicator& comm, const std::string& layer,
                             const Minibatch& minibatch) {
  Learner learner(
      parallel, comm, kNoMomentum,
      {Config::Parse("layer = [{type='affine', dim=9}, {type='tanh'}, " + layer + ", {type='affine'}]", "net"),
       kFeatures, kPdfs, 3});
  nn::SideTargets side;
  side.tasks.push_back({.task = "who", .labels = minibatch.pdf_ids});
  StepInput input;
  input.context.training = true;
  input.context.side_targets = &side;
  input.features = minibatch.features;
  input.targets.pdf_ids = minibatch.pdf_ids;
  input.learning_rate = 0.3;
  learner.strategy->Step(input);
  return learner.Values();
}

// In the first minibatch of all a worker without frames has no memory of derivatives yet, and still passes them down
// to where the others wait for its sums.
TEST(SyncBatchNorm, TakesAnEmptyFirstMinibatchBelowAllThatLearnsInsideALayer) {
  const std::string chain = "layers=[{type='batch-norm'}, {type='affine', dim=9}]";
  const auto self = comm::MakeSelfCommunicator();
  for (const std::string& layer :
       {"{type='residual', " + chain + "}", "{type='ensemble', members=[{" + chain + "}, {" + chain + "}]}",
        std::string("{type='side-task', task='who', classes=5, layers=[{type='batch-norm'}, {type='affine'}]}")}) {
    SCOPED_TRACE(layer);
    const std::vector<float> one = FirstStep(kSerial, *self, layer, Minibatch(0));
    const auto together = OnRanks(2, [&](comm::Communicator& comm) {
      return FirstStep(kSynchronised, comm, layer, Minibatch(0, comm.rank() == 0 ? kFrames : 0));
    });
    EXPECT_LT(LargestDifference(together[0], one), 1e-5);
    EXPECT_EQ(together[1], together[0]);
  }
}

TEST(SyncBatchNorm, ALostWorkerEndsTheRunWithItsName) {
  try {
    OnRanks(3, [&](comm::Communicator& comm) {
      Learner learner(kSynchronised, comm, kNoMomentum, Normalising());
      learner.Train(0, 2, comm.rank(), 3);
      if (comm.rank() == 2) throw InputError("shard 2 is missing");
      learner.Train(2, 40, comm.rank(), 3);
      return 0;
    });
    FAIL() << "expected the error of rank 2";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("rank 2"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("shard 2 is missing"), std::string::npos) << e.what();
  }
  // And one that says nothing, within the deadline.
  EXPECT_THROW(OnRanks(3,
                       [&](comm::Communicator& comm) {
                         comm.set_deadline_seconds(2);
                         Learner learner(kSynchronised, comm, kNoMomentum, Normalising());
                         learner.Train(0, comm.rank() == 2 ? 1 : 2, comm.rank(), 3);
                         return 0;
                       }),
               PeerError);
}

}  // namespace
}  // namespace antiphon::parallel
