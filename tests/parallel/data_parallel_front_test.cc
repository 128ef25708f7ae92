// One network whose lowest layers are data-parallel and whose upper ones are divided: the same model as on one rank,
// and the bytes that the header states.
#include "parallel/data_parallel_front.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "comm/simulated_world.h"
#include "parallel/small_sequences.h"
#include "parallel/stripes.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

std::string FrontOf(int layers, const std::string& keys = "", const std::string& method = "model-parallel") {
  return "method = \"" + method + "\"\ndata-parallel-layers = " + std::to_string(layers) + "\n" + keys;
}

std::vector<float> FramesTogether(int workers, const std::string& keys, int64_t steps = 10) {
  return OnRanks(workers,
                 [&](comm::Communicator& comm) {
                   Learner learner(keys, comm);
                   learner.Train(0, steps, comm.rank(), workers);
                   learner.End();
                   return learner.Values();
                 })
      .front();
}

TEST(DataParallelFront, EqualsOneRank) {
  const std::vector<float> alone = FramesTogether(1, "method = \"serial\"\n");
  // Two, four and six of them: the first, second and third hidden layer.
  for (const int layers : {2, 4, 6}) {
    for (const int stripes : {2, 3, 4}) {
      EXPECT_LT(LargestDifference(FramesTogether(stripes, FrontOf(layers)), alone), 2e-6)
          << layers << " on " << stripes;
    }
  }
}

TEST(DataParallelFront, AGridEqualsReplicas) {
  const std::string keys = "rate-scaling = \"none\"\n";
  const std::vector<float> replicas = FramesTogether(2, "method = \"ssgd\"\n" + keys);
  EXPECT_LT(LargestDifference(FramesTogether(4, FrontOf(4, "stripes = 2\n" + keys)), replicas), 2e-6);
}

struct Kind {
  std::string network;
  int layers;         // of the front
  int as_many_as_do;  // what −1 stands for
};

std::vector<Kind> Kinds() {
  return {
      {kSmallTdnn, 3, 0},
      {kSmallTdnn, 6, 0},
      {kSmallLstm, 4, 4},
      {"layer = [{type='convolution', filters=4, offsets=[-1, 0, 1]}, {type='relu'}, {type='affine', dim=9}, "
       "{type='batch-norm'}, {type='tdnn', dim=8, offsets=[-1, 1]}, {type='sigmoid'}, {type='gru', dim=6}, "
       "{type='affine'}]",
       4, 8},
      {"layer = [{type='convolution', filters=4, offsets=[-1, 0, 1]}, {type='batch-norm', affine=true}, {type='relu'}, "
       "{type='tdnn', dim=8, stride=2}, {type='batch-norm'}, {type='affine'}]",
       3, 3},
      {"layer = [{type='tdnn', dim=8}, {type='residual', layers=[{type='tdnn', dim=8}, {type='batch-norm'}, "
       "{type='relu'}]}, {type='splice', offsets=[0, 2]}, {type='bidirectional', right=2, layers=[{type='gru', "
       "dim=4}]}, {type='affine'}]",
       5, 5},
  };
}

struct LearnedWithFront {
  std::vector<float> values;
  std::vector<float> logits;  // of an evaluation in the middle of training
  double loss = 0;
};

std::vector<LearnedWithFront> LearnStreams(int workers, const std::string& keys, const std::string& network) {
  return OnRanks(workers, [&](comm::Communicator& comm) {
    StreamLearner learner(keys, comm, network);
    learner.TrainStreams(0, 6);
    LearnedWithFront learned;
    learned.logits = learner.Evaluate(3);
    learner.TrainStreams(6, 13);
    learner.End();
    learned.values = learner.Values();
    learned.loss = learner.loss();
    return learned;
  });
}

// Carried states, padded chunks, strides, statistics of the whole minibatch; with four ranks one has no stream.
TEST(DataParallelFrontSequences, EqualsOneRank) {
  const AsLargeLayers as_large_layers;
  for (const Kind& kind : Kinds()) {
    SCOPED_TRACE(kind.network);
    const LearnedWithFront alone = LearnStreams(1, "method = \"serial\"\n", kind.network).front();
    for (const int stripes : {2, 3, 4}) {
      for (const std::string method : {"model-parallel", "asgd-groups"}) {
        const auto ranks = LearnStreams(stripes, FrontOf(kind.layers, "", method), kind.network);
        for (const LearnedWithFront& together : ranks) {
          EXPECT_LT(LargestDifference(together.values, alone.values), 5e-6) << stripes << " " << method;
          EXPECT_LT(LargestDifference(together.logits, alone.logits), 3e-5) << stripes << " " << method;
          EXPECT_NEAR(together.loss, alone.loss, 1e-3) << stripes << " " << method;
        }
      }
    }
  }
}

TEST(DataParallelFrontSequences, WhatCannotBeDividedIsBelowOnAsking) {
  for (const Kind& kind : Kinds()) {
    EXPECT_EQ(FrontLayers(MakeSequenceNetwork(kind.network), -1, 2), static_cast<size_t>(kind.as_many_as_do))
        << kind.network;
  }
}

// Front and divided layers in one sum over replicas.
TEST(DataParallelFrontSequences, AGridEqualsReplicas) {
  const std::string keys = "rate-scaling = \"none\"\n";
  const auto replicas = LearnStreams(2, "method = \"ssgd\"\n" + keys, kSmallLstm);
  const auto grid = LearnStreams(4, FrontOf(4, "stripes = 2\n" + keys), kSmallLstm);
  EXPECT_LT(LargestDifference(grid.front().values, replicas.front().values), 5e-6);
}

TEST(DataParallelFrontSequences, GoesOnInTheMiddleOfUtterances) {
  const testing::TemporaryFolder folder;
  const auto file = [&](comm::Communicator& comm) { return folder / ("rank" + std::to_string(comm.rank())); };
  const auto whole = OnRanks(2, [&](comm::Communicator& comm) {
    StreamLearner learner(FrontOf(4), comm, kSmallLstm);
    learner.TrainStreams(0, 6);
    learner.Save(file(comm));
    learner.TrainStreams(6, 12);
    return learner.End();
  });
  const auto continued = OnRanks(2, [&](comm::Communicator& comm) {
    StreamLearner learner(FrontOf(4), comm, kSmallLstm);
    learner.Load(file(comm));
    learner.TrainStreams(6, 12);
    return learner.End();
  });
  EXPECT_EQ(continued, whole);
}

// Placement and threads do not change a bit.
TEST(DataParallelFrontSequences, TheSameBitsWhereverItRuns) {
  const std::string network = Kinds()[4].network;
  const auto train = [&](comm::Communicator& comm) {
    StreamLearner learner(FrontOf(3), comm, network);
    learner.TrainStreams(0, 8);
    return learner.End();
  };
  const std::vector<uint64_t> threads = OnRanks(3, train);
  EXPECT_EQ(threads[1], threads[0]);
  EXPECT_EQ(threads[2], threads[0]);
  comm::ClusterOptions two_machines;
  two_machines.links.ranks_per_node = 2;
  for (const comm::ClusterOptions& cluster : {comm::ClusterOptions{}, two_machines}) {
    std::vector<uint64_t> simulated(3);
    comm::RunSimulated(3, cluster,
                       [&](comm::Communicator& comm) { simulated[static_cast<size_t>(comm.rank())] = train(comm); });
    EXPECT_EQ(simulated, threads);
  }
}

// A convolution under two wide layers: what travels is its output, the divided layer's, four numbers per frame, and the
// gradients of the convolution; with all ranks alike, a rank sends to the others what it gets of them.
TEST(DataParallelFrontSequences, SendsWhatTheFormulaSays) {
  constexpr int kStripes = 3;
  const std::string network =
      "layer = [{type='convolution', filters=40, offsets=[-1, 0, 1]}, {type='relu'}, {type='affine', dim=300}, "
      "{type='relu'}, {type='affine', dim=5}]";
  const auto sent_and_weights = OnRanks(kStripes, [&](comm::Communicator& comm) {
    StreamLearner learner(FrontOf(2), comm, network);
    const double weights = static_cast<double>(learner.network.values({0, 2}).size());
    const double width = learner.network.layer(1).out_dim();
    const int64_t before = comm.bytes_sent();
    learner.TrainStreams(0, 1);
    const auto sent = static_cast<double>(comm.bytes_sent() - before);
    return std::array{sent, weights, width};
  });
  const auto [first_sent, weights, width] = sent_and_weights.front();
  double sent = 0;
  for (const auto& rank : sent_and_weights) sent += rank[0] / kStripes;
  constexpr double kRows = kStreams * kChunkOutputs;
  constexpr double kOthers = kStripes - 1;
  const double boundary = 2 * 4 * kRows * width * kOthers / kStripes;
  const double hidden = 2 * 4 * kRows * 300 * kOthers / kStripes;
  const double softmax = 4 * 4 * kRows * kOthers;
  const double sums = 2 * 4 * weights * kOthers / kStripes;
  EXPECT_GT(weights, 400);
  EXPECT_NEAR(sent, boundary + hidden + softmax + sums, 0.01 * sent);
}

// Ranks would otherwise drop the same units of their frames.
TEST(DataParallelFront, RanksDrawMasksOfTheirOwn) {
  constexpr int64_t kRowsOfEach = 20;
  comm::RunRanks(2, [](comm::Communicator& comm) {
    nn::Network network(Config::Parse("layer = [{type='dropout', proportion=0.5}, {type='affine', dim=5}]", "net"),
                        kFeatures, 5, 1);
    RankGroup group(comm, {0, 1}, 1);
    DataParallelFront front(network, 1, group);
    Matrix x(2 * kRowsOfEach, kFeatures);
    std::fill_n(x.data(), x.size(), 1.0f);
    nn::ExecContext context;
    context.training = true;
    nn::Workspace ws;
    const MatrixView y = front.Forward(context, x, ws);
    ASSERT_EQ(y.rows(), x.rows());
    int64_t different = 0;
    for (int64_t n = 0; n < kRowsOfEach; ++n) {
      for (int64_t c = 0; c < kFeatures; ++c) different += y(n, c) != y(kRowsOfEach + n, c) ? 1 : 0;
    }
    EXPECT_GT(different, kRowsOfEach * kFeatures / 4);
  });
}

// Each rank preconditions its own gradients before they are summed, as the workers of synchronous SGD do.
TEST(DataParallelFront, NaturalGradientIsThatOfSynchronousWorkers) {
  const std::string optimizer = "type = \"natural-gradient\"\n";
  const auto front_after_a_step = [&](const std::string& keys, bool halves) {
    return OnRanks(2, [&](comm::Communicator& comm) {
      Learner learner(keys, comm, optimizer);
      Minibatch minibatch(0);
      if (halves) {
        const int64_t half = kFrames / 2;
        minibatch.features = Matrix(ConstMatrixView(minibatch.features.view()).Rows(comm.rank() * half, half));
        minibatch.pdf_ids = {minibatch.pdf_ids.begin() + comm.rank() * half,
                             minibatch.pdf_ids.begin() + (comm.rank() + 1) * half};
      }
      learner.Step(minibatch, 0);
      const auto values = learner.network.values({0, 4});
      return std::vector<float>(values.begin(), values.end());
    })[0];
  };
  const auto workers = front_after_a_step("method = \"ssgd\"\nrate-scaling = \"none\"\n", true);
  const auto front = front_after_a_step(FrontOf(4), false);
  EXPECT_LT(LargestDifference(front, workers), 2e-5);
  const nn::Network start = MakeNetwork();
  EXPECT_GT(LargestDifference(front, {start.values().begin(), start.values().begin() + std::ssize(front)}), 1e-3);
}

TEST(DataParallelFront, RefusesCutsThatCannotBe) {
  const auto refusal = [](const std::string& keys, const std::string& network) {
    std::string message;
    comm::RunRanks(2, [&](comm::Communicator& comm) {
      try {
        StreamLearner learner(keys, comm, network);
      } catch (const UsageError& e) {
        if (comm.rank() == 0) message = e.what();
      }
    });
    return message;
  };
  // Not between a product and the activation that it computes, nor above the copies of a splice.
  for (const int layers : {1, 2, 4, 5, 7, 8, 10, 11}) {
    EXPECT_NE(refusal(FrontOf(layers), kSmallTdnn).find("data-parallel: take one of 3, 6, 9"), std::string::npos)
        << refusal(FrontOf(layers), kSmallTdnn);
  }
  // Nothing is left to divide.
  EXPECT_NE(refusal(FrontOf(-1), "layer = [{type='affine', dim=9}, {type='lstm', dim=5}]").find("above those"),
            std::string::npos);
}

}  // namespace
}  // namespace antiphon::parallel
