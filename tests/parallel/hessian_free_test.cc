// Hessian-free training: the loss falls and never rises, and the number of workers only divides the data.
#include <gtest/gtest.h>

#include "parallel/small_learner.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

constexpr int64_t kMinibatches = 12;
const char kMethod[] = "method = \"hessian-free\"\ncurvature-minibatches = 99\ncheck-minibatches = 1\ndamping = 1\n";

double MeanLoss(nn::Network& network) {
  nn::Workspace ws;
  double total = 0;
  for (int64_t m = 0; m < kMinibatches; ++m) {
    const Minibatch minibatch(m);
    nn::LossTargets targets;
    targets.pdf_ids = minibatch.pdf_ids;
    total += nn::SoftmaxCrossEntropy(network.Forward({}, minibatch.features, ws), targets, {}).loss();
  }
  return total / static_cast<double>(kMinibatches);
}

std::vector<std::vector<float>> TrainEpochs(int workers, int epochs, std::vector<double>* losses = nullptr,
                                            const std::string& keys = "") {
  return OnRanks(workers, [&](comm::Communicator& comm) {
    Learner learner(kMethod + keys, comm, "type = \"sgd\"\n");
    for (int epoch = 0; epoch < epochs; ++epoch) {
      learner.Train(0, kMinibatches / workers, comm.rank(), workers);
      learner.EndEpoch();
      if (losses != nullptr && comm.rank() == 0) losses->push_back(MeanLoss(learner.network));
    }
    return learner.Values();
  });
}

TEST(HessianFree, LowersTheLossStepByStep) {
  for (const char* preconditioner : {"diagonal", "lbfgs", "none"}) {
    SCOPED_TRACE(preconditioner);
    nn::Network untrained = MakeNetwork();
    std::vector<double> losses = {MeanLoss(untrained)};
    TrainEpochs(1, 8, &losses, std::string("preconditioner = \"") + preconditioner + "\"\n");
    for (size_t i = 1; i < losses.size(); ++i) EXPECT_LE(losses[i], losses[i - 1] + 1e-6) << "step " << i;
    EXPECT_LT(losses.back(), 0.87 * losses.front());
  }
}

// Pairs of steps and products are part of the state.
TEST(HessianFree, PairsOfTheLastStepAreResumed) {
  const testing::TemporaryFolder folder;
  const auto comm = comm::MakeSelfCommunicator();
  const std::string method = std::string(kMethod) + "preconditioner = \"lbfgs\"\nlbfgs-pairs = 4\n";
  const auto epoch = [](Learner& learner) {
    learner.Train(0, kMinibatches);
    learner.EndEpoch();
  };
  Learner whole(method, *comm), first(method, *comm), second(method, *comm);
  for (Learner* learner : {&whole, &first}) {
    epoch(*learner);
    epoch(*learner);
  }
  first.Save(folder / "state.safetensors");
  second.Load(folder / "state.safetensors");
  epoch(whole);
  epoch(second);
  EXPECT_EQ(second.Values(), whole.Values());
}

// Frozen layers, and those that have no decay.
TEST(HessianFree, WeightDecayPullsOnlyWhatItIsFor) {
  const auto comm = comm::MakeSelfCommunicator();
  const auto network = [](const std::string& lower, const std::string& upper) {
    return nn::Network(Config::Parse("layer = [{type = 'affine', dim = 9, bias-init = 0.5" + lower +
                                         "}, {type = 'tanh'}, {type = 'affine'" + upper + "}]",
                                     "net"),
                       kFeatures, kPdfs, 3);
  };
  const auto train = [&](nn::Network net, const std::string& keys) {
    Learner learner(kMethod + keys, *comm, "type = \"sgd\"\n", std::move(net));
    for (int epoch = 0; epoch < 2; ++epoch) {
      learner.Train(0, kMinibatches);
      learner.EndEpoch();
    }
    return learner.Values();
  };
  for (const std::string preconditioner : {"diagonal", "lbfgs", "none"}) {
    SCOPED_TRACE(preconditioner);
    const std::string keys = "cg-iterations = 20\npreconditioner = \"" + preconditioner + "\"\n";
    const std::string decay = keys + "weight-decay = 0.05\n";
    const std::string frozen = ", learning-rate-factor = 0.0", no_decay = ", weight-decay-factor = 0.0";
    const std::vector<float> trained = train(network(frozen, ""), decay);
    const nn::Network before = network(frozen, "");
    const auto top = static_cast<size_t>(before.parameters()[2]->offset);
    for (size_t i = 0; i < top; ++i) ASSERT_EQ(trained[i], before.values()[i]) << i;
    EXPECT_GT(LargestDifference(trained, {before.values().begin(), before.values().end()}), 1e-3);
    EXPECT_EQ(train(network(no_decay, no_decay), decay), train(network("", ""), keys));
    EXPECT_GT(LargestDifference(train(network("", ""), decay), train(network("", ""), keys)), 1e-3);
  }
}

// Products and gradients are sums over the same frames, whoever computes them.
TEST(HessianFree, WorkersOnlyDivideTheData) {
  const auto alone = TrainEpochs(1, 1);
  for (const int workers : {2, 3}) {
    for (const std::vector<float>& values : TrainEpochs(workers, 1)) {
      EXPECT_LT(LargestDifference(values, alone[0]), 1e-4) << workers << " workers";
    }
  }
}

TEST(HessianFree, RefusesSamplesLargerThanTheGradientsData) {
  const auto comm = comm::MakeSelfCommunicator();
  EXPECT_THROW(Learner("method = \"hessian-free\"\ngradient-minibatches = 3\n", *comm), UsageError);
}

}  // namespace
}  // namespace antiphon::parallel
