// Layers striped over ranks: the same model as on one rank, less memory for each, and sparse links that stay sparse.
#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/small_sequences.h"
#include "parallel/striped_network.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

std::vector<float> Together(int workers, const std::string& keys, int64_t steps = 10) {
  return OnRanks(workers,
                 [&](comm::Communicator& comm) {
                   Learner learner("method = \"model-parallel\"\n" + keys, comm);
                   learner.Train(0, steps, comm.rank(), workers);
                   learner.End();
                   return learner.Values();
                 })
      .front();
}

std::vector<float> Alone(const std::vector<std::vector<int64_t>>& minibatches) {
  const auto comm = comm::MakeSelfCommunicator();
  Learner learner("method = \"serial\"\n", *comm);
  for (size_t step = 0; step < minibatches.size(); ++step) {
    learner.Step(Minibatch::Joined(minibatches[step]), static_cast<int64_t>(step));
  }
  learner.End();
  return learner.Values();
}

TEST(ModelParallel, StripesEqualOneRank) {
  std::vector<std::vector<int64_t>> each;
  for (int64_t m = 0; m < 10; ++m) each.push_back({m});
  const std::vector<float> alone = Alone(each);
  for (const int stripes : {2, 3, 4}) EXPECT_LT(LargestDifference(Together(stripes, ""), alone), 2e-6) << stripes;
}

TEST(ModelParallel, AGridEqualsOneRankWithTheJoinedMinibatches) {
  std::vector<std::vector<int64_t>> pairs;
  for (int64_t m = 0; m < 10; ++m) pairs.push_back({2 * m, 2 * m + 1});
  const std::vector<float> alone = Alone(pairs);
  EXPECT_LT(LargestDifference(Together(4, "stripes = 2\nrate-scaling = \"none\"\n"), alone), 2e-6);
  EXPECT_LT(LargestDifference(Together(2, "stripes = 1\nrate-scaling = \"none\"\n"), alone), 2e-6);
}

// Minibatches of which a step's last ones are short, or empty, as a trainer gives them.
TEST(ModelParallel, ReplicasCountUnevenMinibatchesAsSynchronousSgdDoes) {
  constexpr int64_t kFramesOfSteps[][2] = {{kFrames, kFrames}, {kFrames, kFrames / 2}, {kFrames, 0}, {4, 12}};
  const auto train = [&](const std::string& method, int ranks) {
    return OnRanks(ranks,
                   [&](comm::Communicator& comm) {
                     Learner learner("rate-scaling = \"linear\"\nmethod = " + method, comm);
                     const int replica = learner.strategy->data_share().index;
                     int64_t step = 0;
                     for (const auto& frames : kFramesOfSteps) {
                       const Minibatch minibatch(2 * step + replica, frames[replica]);
                       StepInput input;
                       input.context.training = true;
                       input.context.step = step++;
                       input.features = minibatch.features;
                       input.targets.pdf_ids = minibatch.pdf_ids;
                       input.learning_rate = 0.3;
                       input.step_fullness = static_cast<double>(frames[0] + frames[1]) / (2 * kFrames);
                       CountAlike(static_cast<double>(frames[replica]) / kFrames, input);
                       learner.strategy->Step(input);
                     }
                     return learner.Values();
                   })
        .front();
  };
  const std::vector<float> ssgd = train("'ssgd'\n", 2);
  EXPECT_LT(LargestDifference(train("'model-parallel'\nstripes = 1\n", 2), ssgd), 2e-6);
  EXPECT_LT(LargestDifference(train("'model-parallel'\nstripes = 2\n", 4), ssgd), 2e-6);
}

TEST(ModelParallel, ARankTrainsItsShareOfTheParameters) {
  comm::RunRanks(3, [](comm::Communicator& comm) {
    nn::Network whole(Config::Parse("[[layer]]\ntype = \"affine\"\ndim = 300\n[[layer]]\ntype = \"relu\"\n"
                                    "[[layer]]\ntype = \"affine\"\n",
                                    "net"),
                      100, 600, 1);
    Learner learner("method = \"model-parallel\"\n", comm, "type = \"sgd\"\nmomentum = 0.5\n", std::move(whole));
    EXPECT_EQ(learner.network.num_parameters() * 3, learner.network.num_whole_parameters());
    EXPECT_EQ(learner.optimizer->state_bytes(), learner.network.num_values() * sizeof(float));
  });
}

// Bytes of a minibatch as the header of StripedNetwork has them.
TEST(ModelParallel, SendsWhatTheFormulaSays) {
  constexpr int kStripes = 3;
  constexpr int kWidth = 300;
  constexpr int kOutputs = 600;
  const auto bytes = OnRanks(kStripes, [&](comm::Communicator& comm) {
    nn::Network whole(
        Config::Parse("[[layer]]\ntype = \"repeat\"\ntimes = 3\nlayers = [{type = \"affine\", dim = 300}, "
                      "{type = \"relu\"}]\n[[layer]]\ntype = \"affine\"\n",
                      "net"),
        kFeatures, kOutputs, 1);
    Learner learner("method = \"model-parallel\"\n", comm, "type = \"sgd\"\n", std::move(whole));
    const int64_t before = comm.bytes_sent();
    learner.Train(0, 1, comm.rank(), kStripes);
    return static_cast<double>(comm.bytes_sent() - before);
  });
  // Each of three hidden layers is gathered forward and its derivative summed backward; a rank sends its own third to
  // the two others, and the two thirds of the derivative that are theirs.
  const double layer = 4.0 * kFrames * kWidth * (kStripes - 1) / kStripes;
  const double softmax = 4.0 * 4 * kFrames * (kStripes - 1);
  double sum = 0;
  for (const double sent : bytes) sum += sent / kStripes;
  EXPECT_NEAR(sum, 3 * 2 * layer + softmax, 0.02 * sum);
}

// A rank draws its own rows as the whole network would.
TEST(ModelParallel, PartsAreDrawnLikeTheWhole) {
  const std::string toml = MakeNetwork().ToToml();
  nn::Network whole(Config::Parse(toml, "net"), kFeatures, kPdfs, 77);
  for (const std::string method : {"model-parallel", "pipeline"}) {
    comm::RunRanks(3, [&](comm::Communicator& comm) {
      nn::Network outline(Config::Parse(toml, "net"), kFeatures, kPdfs, 77, nn::InitialValues::kOutline);
      const auto parts = DivideModel(Config::Parse("method = \"" + method + "\"\n", "p"), outline, comm);
      nn::Network part(Config::Parse(toml, "net"), kFeatures, kPdfs, 77, nn::InitialValues::kRandom,
                       parts->Of(comm.rank()));
      EXPECT_LT(part.num_parameters(), whole.num_parameters());
      EXPECT_EQ(WholeOf(comm, parts.get(), part).Hash(), whole.Hash());
      EXPECT_EQ(part.Clone().Hash(), part.Hash());
    });
  }
}

TEST(ModelParallel, SparseLinksStaySparse) {
  const nn::Network start = MakeNetwork();
  const std::vector<float> values = Together(3, "sparse-links = 1\n", 20);
  int64_t zeros = 0;
  int64_t moved = 0;
  const nn::Parameter& weight = *start.parameters()[2];  // between hidden layers of 9 units, 3 on each rank
  for (int64_t i = 0; i < weight.value.size(); ++i) {
    const float now = values[static_cast<size_t>(weight.offset + i)];
    zeros += now == 0 ? 1 : 0;
    moved += now != 0 && now != weight.value.data()[i] ? 1 : 0;
  }
  // Each unit sees the 3 of its own rank and 1 of each of the others.
  EXPECT_EQ(zeros, 9 * (9 - 5));
  EXPECT_EQ(moved, 9 * 5);
}

// Layers so wide that the rows of their derivatives are padded (math/padded_matrix.h).
TEST(ModelParallel, LinksToAllUnitsAreNoLinksLeftOut) {
  const auto train = [](const std::string& keys) {
    return OnRanks(2, [&](comm::Communicator& comm) {
      nn::Network whole(
          Config::Parse("[[layer]]\ntype = \"repeat\"\ntimes = 2\nlayers = [{type = \"affine\", dim = 256}, "
                        "{type = \"relu\"}]\n[[layer]]\ntype = \"affine\"\n",
                        "net"),
          kFeatures, kPdfs, 1);
      Learner learner("method = \"model-parallel\"\n" + keys, comm, "type = \"sgd\"\n", std::move(whole));
      learner.Train(0, 5, comm.rank(), 2);
      learner.End();
      return learner.Values();
    });
  };
  EXPECT_EQ(train("sparse-links = 256\n"), train(""));
}

// Of each hidden layer 100 units on each of three ranks; what is not seen stays at home, in both directions.
TEST(ModelParallel, SparseLinksSendWhatIsSeen) {
  constexpr int kLinks = 5;
  const auto bytes = OnRanks(3, [&](comm::Communicator& comm) {
    nn::Network whole(
        Config::Parse("[[layer]]\ntype = \"repeat\"\ntimes = 3\nlayers = [{type = \"affine\", dim = 300}, "
                      "{type = \"relu\"}]\n[[layer]]\ntype = \"affine\"\n",
                      "net"),
        kFeatures, 600, 1);
    Learner learner("method = \"model-parallel\"\nsparse-links = 5\n", comm, "type = \"sgd\"\n", std::move(whole));
    const int64_t before = comm.bytes_sent();
    learner.Train(0, 1, comm.rank(), 3);
    return static_cast<double>(comm.bytes_sent() - before);
  });
  const double layer = 4.0 * kFrames * kLinks * 2;
  const double softmax = 4.0 * 4 * kFrames * 2;
  for (const double sent : bytes) EXPECT_NEAR(sent, 3 * 2 * layer + softmax, 0.3 * softmax);
}

// Dropout in between wants everything: the links are as sparse, what travels is not.
TEST(ModelParallel, SparseLinksStaySparseWhereEverythingIsSent) {
  const auto train = [](const std::string& between) {
    return OnRanks(3, [&](comm::Communicator& comm) {
      nn::Network whole(Config::Parse("layer = [{type='affine', dim=9}, {type='tanh'}, " + between +
                                          "{type='affine', dim=9}, {type='tanh'}, {type='affine'}]\n",
                                      "net"),
                        kFeatures, kPdfs, 3);
      Learner learner("method = \"model-parallel\"\nsparse-links = 1\n", comm, "type = \"sgd\"\n", std::move(whole));
      const int64_t before = comm.bytes_sent();
      learner.Train(0, 10, comm.rank(), 3);
      const int64_t sent = comm.bytes_sent() - before;
      return std::pair(learner.Values(), sent);
    })[0];
  };
  const auto seen = train("");
  const auto all = train("{type='dropout', proportion=0.0}, ");
  EXPECT_LT(seen.second, all.second);
  EXPECT_GT(std::ranges::count(seen.first, 0.0f), 0);
  EXPECT_EQ(std::ranges::count(seen.first, 0.0f), std::ranges::count(all.first, 0.0f));
}

// What a worker learns of sequences: values, loss, and logits of an evaluation in the middle of training.
struct Learned {
  std::vector<float> values;
  std::vector<float> logits;
  double loss = 0;
};

Learned LearnStreams(StreamLearner& learner) {
  learner.TrainStreams(0, 6);
  Learned learned;
  learned.logits = learner.Evaluate(3);
  learner.TrainStreams(6, 13);
  learner.End();
  learned.values = learner.Values();
  learned.loss = learner.loss();
  return learned;
}

Learned StreamsTogether(int workers, const std::string& keys, const std::string& network) {
  return OnRanks(workers,
                 [&](comm::Communicator& comm) {
                   StreamLearner learner(keys, comm, network);
                   return LearnStreams(learner);
                 })
      .front();
}

// Carried states, padded chunks, layers of fewer rows than they get, and an evaluation between two chunks.
TEST(ModelParallelSequences, StripesEqualOneRank) {
  const AsLargeLayers as_large_layers;
  const std::string kinds[] = {
      kSmallTdnn, kSmallLstm,
      "layer = [{type='convolution', filters=4, offsets=[-1, 0, 1]}, {type='relu'}, {type='affine', dim=9}, "
      "{type='batch-norm'}, {type='tdnn', dim=8, offsets=[-1, 1]}, {type='sigmoid'}, {type='gru', dim=6}, "
      "{type='affine'}]",
      "layer = [{type='tdnn', dim=8}, {type='residual', layers=[{type='tdnn', dim=8}, {type='relu'}]}, "
      "{type='splice', offsets=[0, 2]}, {type='bidirectional', right=2, layers=[{type='gru', dim=4}]}, "
      "{type='affine'}]"};
  for (const std::string& network : kinds) {
    SCOPED_TRACE(network);
    const Learned alone = StreamsTogether(1, "method = \"serial\"\n", network);
    for (const int stripes : {2, 3, 4}) {
      const Learned together = StreamsTogether(stripes, "method = \"model-parallel\"\n", network);
      EXPECT_LT(LargestDifference(together.values, alone.values), 5e-6) << stripes;
      EXPECT_LT(LargestDifference(together.logits, alone.logits), 2e-5) << stripes;
      EXPECT_NEAR(together.loss, alone.loss, 1e-3) << stripes;
    }
  }
}

TEST(ModelParallelSequences, AGridEqualsAsManyReplicas) {
  const std::string keys = "rate-scaling = \"none\"\n";
  const Learned replicas = StreamsTogether(2, "method = \"ssgd\"\n" + keys, kSmallLstm);
  const Learned grid = StreamsTogether(4, "method = \"model-parallel\"\nstripes = 2\n" + keys, kSmallLstm);
  EXPECT_LT(LargestDifference(grid.values, replicas.values), 5e-6);
}

TEST(ModelParallelSequences, GoesOnInTheMiddleOfUtterances) {
  const testing::TemporaryFolder folder;
  const std::string method = "method = \"model-parallel\"\n";
  const auto file = [&](comm::Communicator& comm) { return folder / ("rank" + std::to_string(comm.rank())); };
  const auto whole = OnRanks(2, [&](comm::Communicator& comm) {
    StreamLearner learner(method, comm, kSmallLstm);
    learner.TrainStreams(0, 6);
    learner.Save(file(comm));
    learner.TrainStreams(6, 12);
    return learner.End();
  });
  const auto continued = OnRanks(2, [&](comm::Communicator& comm) {
    StreamLearner learner(method, comm, kSmallLstm);
    learner.Load(file(comm));
    learner.TrainStreams(6, 12);
    return learner.End();
  });
  EXPECT_EQ(continued, whole);
}

std::vector<float> ValuesOfLayer(nn::Network& network, size_t layer) {
  std::vector<float> values;
  for (const nn::Parameter* p : network.layer(layer).parameters()) {
    values.insert(values.end(), p->value.data(), p->value.data() + p->value.size());
  }
  return values;
}

// Each rank's limit sees another part of the step; what all hold must stay one.
TEST(ModelParallelSequences, LayersThatAllHoldStayAlikeUnderALimitOfTheStep) {
  const auto held = OnRanks(3, [&](comm::Communicator& comm) {
    StreamLearner learner("method = \"model-parallel\"\n", comm, kSmallLstm,
                          "type = \"sgd\"\nmomentum = 0.5\nmax-change = 0.02\n");
    learner.TrainStreams(0, 8);
    EXPECT_LT(learner.outcomes.back().report.max_change_scale, 1);
    return ValuesOfLayer(learner.network, 2);
  });
  EXPECT_EQ(held[1], held[0]);
  EXPECT_EQ(held[2], held[0]);
}

TEST(ModelParallelSequences, LayersThatAllHoldComeTogetherAgainWhenAMachineComputesDifferently) {
  const auto held = OnRanks(3, [&](comm::Communicator& comm) {
    StreamLearner learner("method = \"model-parallel\"\n", comm, kSmallLstm);
    learner.TrainStreams(0, 5);
    if (comm.rank() == 1) {
      nn::Parameter& weight = *learner.network.layer(2).parameters()[0];
      weight.value(1, 2) += 1e-6f;
      weight.MarkChanged();
    }
    learner.TrainStreams(5, 10);
    const std::vector<float> apart = ValuesOfLayer(learner.network, 2);
    learner.TrainStreams(10, 16);  // the comparison follows the 16th update
    return std::pair(apart, ValuesOfLayer(learner.network, 2));
  });
  EXPECT_NE(held[1].first, held[0].first);
  EXPECT_EQ(held[1].second, held[0].second);
  EXPECT_EQ(held[2].second, held[0].second);
}

// The copies that a splice makes of a layer's outputs are neither gathered nor sent back.
TEST(ModelParallelSequences, ATimeDelayLayerSendsItsUnitsOnce) {
  constexpr int kStripes = 3;
  constexpr int kWidth = 300;
  const auto bytes = OnRanks(kStripes, [&](comm::Communicator& comm) {
    StreamLearner learner("method = \"model-parallel\"\n", comm,
                          "layer = [{type='affine', dim=300}, {type='relu'}, {type='tdnn', dim=300}, {type='relu'}, "
                          "{type='affine'}]");
    const int64_t before = comm.bytes_sent();
    learner.TrainStreams(0, 1);
    return static_cast<double>(comm.bytes_sent() - before);
  });
  // A layer's rows forward and backward; the tdnn has two frames of context.
  const double row = 2 * 4.0 * kWidth * (kStripes - 1) / kStripes;
  const double expected = row * kStreams * (kChunkOutputs + 2 + kChunkOutputs);
  double sum = 0;
  for (const double sent : bytes) sum += sent / kStripes;
  EXPECT_NEAR(sum, expected, 0.03 * expected);
}

TEST(ModelParallelSequences, SparseLinksAreTheSameInAllFramesOfATimeDelayLayer) {
  const auto values = OnRanks(3, [&](comm::Communicator& comm) {
    StreamLearner learner("method = \"model-parallel\"\nsparse-links = 1\n", comm,
                          "layer = [{type='tdnn', dim=9}, {type='tanh'}, {type='tdnn', dim=9}, {type='tanh'}, "
                          "{type='affine'}]");
    learner.TrainStreams(0, 8);
    return learner.Values();
  })[0];
  const nn::Network start = MakeSequenceNetwork(
      "layer = [{type='tdnn', dim=9}, {type='tanh'}, {type='tdnn', dim=9}, {type='tanh'}, {type='affine'}]");
  const nn::Parameter& weight = *start.parameters()[2];
  int64_t zeros = 0;
  for (int64_t r = 0; r < weight.value.rows(); ++r) {
    for (int64_t c = 0; c < weight.value.cols(); ++c) {
      const auto at = [&](int64_t col) {
        return values[static_cast<size_t>(weight.offset + r * weight.value.cols() + col)];
      };
      zeros += at(c) == 0 ? 1 : 0;
      EXPECT_EQ(at(c) == 0, at(c % 9) == 0) << r << ", " << c;
    }
  }
  // Of each rank's three units, in three frames: all of one's own, one of each other's.
  EXPECT_EQ(zeros, 9 * (9 - 5) * 3);
}

TEST(ModelParallel, RefusesReplicasThatDoNotDivideTheWorkers) {
  EXPECT_THROW(Together(3, "stripes = 2\n"), UsageError);
}

// The sum of their gradients is no natural gradient, and used to be taken for one.
TEST(ModelParallel, RefusesReplicasThatWouldSumNaturalGradients) {
  const auto learn = [](const std::string& stripes) {
    comm::RunRanks(4, [&](comm::Communicator& comm) {
      Learner("method = \"model-parallel\"\n" + stripes, comm, "type = \"natural-gradient\"\n").Train(0, 1, 0, 1);
    });
  };
  EXPECT_THROW(learn("stripes = 2\n"), UsageError);
  EXPECT_NO_THROW(learn("stripes = 4\n"));
}

TEST(ModelParallel, RefusesNetworksOfWhichNothingCanBeDivided) {
  for (const std::string method : {"model-parallel", "asgd-groups"}) {
    comm::RunRanks(2, [&](comm::Communicator& comm) {
      EXPECT_THROW(StreamLearner("method = \"" + method + "\"\n", comm, "layer = [{type='lstm', dim=5}]"), UsageError);
    });
  }
}

}  // namespace
}  // namespace antiphon::parallel
