// Networks that look at several frames or carry a state, trained: they learn, resume in the middle of utterances, and
// work under the methods whose workers hold whole networks.
#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>

#include "base/cancel.h"
#include "parallel/strategy.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"
#include "train/world.h"

namespace antiphon::train {
namespace {

class StopAtStep : public parallel::Strategy {
 public:
  using Strategy::Strategy;
  static inline std::atomic<int64_t> step = -1;

 protected:
  optim::StepReport AfterStep(const parallel::StepInput& input) override {
    if (input.context.step == step) RequestCancel();
    return optimizer().EndStep();
  }
};
REGISTER_COMPONENT(parallel::StrategyRegistry, "test-stop", [](const Config&, const parallel::Replica& replica) {
  return std::make_unique<StopAtStep>(replica);
});

constexpr const char* kTdnn =
    "layer = [{type='tdnn', dim=24}, {type='relu'}, {type='batch-norm'}, {type='tdnn', dim=24, offsets=[-2, 0, 2]}, "
    "{type='relu'}, {type='affine'}]";
constexpr const char* kLstm =
    "layer = [{type='tdnn', dim=16}, {type='lstm', dim=24, projection=12}, {type='splice', offsets=[0, 2]}, "
    "{type='affine'}]";

class SequenceNetwork : public ::testing::Test {
 protected:
  TrainOptions Options() const {
    TrainOptions options = SmallOptions();
    options.data.left_context = options.data.right_context = 0;
    options.data.chunk_frames = 15;
    options.data.minibatch = 60;
    return options;
  }
  TrainingTask Task(const std::string& folder, const std::string& network) const {
    TrainingTask task = SmallTask(store_, folder_ / folder);
    task.network = Config::Parse(network, "network");
    return task;
  }
  // Hash of the model that several workers learn.
  uint64_t Together(const std::string& folder, const std::string& network, const std::string& parallel,
                    const TrainOptions& options, const std::string& cluster = "") const {
    TrainingTask task = Task(folder, network);
    task.parallel = Config::Parse(parallel, "parallel");
    uint64_t hash = 0;
    const auto alone = comm::ProcessGroup::Alone();
    RunWorkers(task.parallel, Config::Parse(cluster, "cluster"), 1, *alone, [&](comm::Communicator& comm) {
      omp_set_num_threads(1);
      const TrainingSummary mine = Trainer(task, options, comm).Run(false);
      if (comm.rank() == 0) hash = mine.model_hash;
    });
    return hash;
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_ = MakeSyntheticStore(folder_ / "store", {.frames = 70, .noise = 1.0});
};

TEST_F(SequenceNetwork, EveryKindLearns) {
  const std::pair<const char*, const char*> kinds[] = {
      {"tdnn", kTdnn},
      {"lstm", kLstm},
      {"gru", "layer = [{type='gru', dim=24}, {type='affine'}]"},
      {"cnn",
       "layer = [{type='convolution', filters=6, offsets=[-1, 0, 1]}, {type='relu'}, {type='pooling', channels=6, "
       "window=2}, {type='tdnn', dim=24}, {type='relu'}, {type='affine'}]"},
      {"tdnn-f",
       "layer = [{type='tdnn', dim=24}, {type='relu'}, {type='tdnn-f', dim=24, bottleneck=8}, {type='affine'}]"}};
  TrainOptions single = SmallOptions();
  single.data.left_context = single.data.right_context = 0;
  const TrainingTask dnn = Task("dnn", "layer = [{type='affine', dim=24}, {type='relu'}, {type='affine'}]");
  const TrainingSummary by_one_frame = TrainHere(dnn, single);
  for (const auto& [name, network] : kinds) {
    const TrainingSummary summary = TrainHere(Task(name, network), Options());
    EXPECT_GT(summary.held_out_accuracy, by_one_frame.held_out_accuracy) << name;
    EXPECT_EQ(summary.frames, by_one_frame.frames) << name;
  }
}

TEST_F(SequenceNetwork, ResumedInTheMiddleOfUtterancesGivesTheSameBits) {
  for (const char* network : {kTdnn, kLstm}) {
    TrainingTask task = Task("whole", network);
    task.parallel = Config::Parse("method = 'test-stop'", "parallel");
    const uint64_t whole = TrainHere(task, Options()).model_hash;
    for (const int64_t step : {0, 7, 61}) {
      task.folder = folder_ / ("stopped" + std::to_string(step) + (network == kTdnn ? "t" : "l"));
      StopAtStep::step = step;
      EXPECT_THROW(TrainHere(task, Options()), Cancelled);
      ResetCancel();
      StopAtStep::step = -1;
      EXPECT_EQ(TrainHere(task, Options(), true).model_hash, whole) << "step " << step;
    }
    std::filesystem::remove_all(folder_ / "whole");
  }
}

TEST_F(SequenceNetwork, WorkersGiveTheSameBitsWhereverTheyLive) {
  for (const char* method : {"ssgd", "averaging", "bmuf", "easgd", "eamsgd", "admm", "natural-gradient-averaging"}) {
    TrainOptions options = Options();
    options.data.distribution = "shares";
    options.schedule.epochs = 1;
    std::string parallel = fmt::format("method = '{}'\nworkers = 3\n", method);
    if (std::string(method) == "natural-gradient-averaging") parallel += "sync-period = 4\ncombine = 3\n";
    const uint64_t threads = Together(fmt::format("{}-threads", method), kLstm, parallel, options);
    const uint64_t simulated = Together(fmt::format("{}-simulated", method), kLstm, parallel + "world = 'simulated'\n",
                                        options, "host = {gflops = 0.5}\n");
    EXPECT_EQ(threads, simulated) << method;
  }
}

TEST_F(SequenceNetwork, ChunksThatStandAloneAreTakenByWhoIsFree) {
  TrainOptions options = Options();
  options.schedule.epochs = 1;
  options.data.carry_state = false;
  EXPECT_NE(Together("asgd", kLstm, "method = 'asgd'\nworkers = 2\n", options), 0u);
  EXPECT_NE(Together("tdnn", kTdnn, "method = 'asgd'\nworkers = 2\n", Options()), 0u);
}

TEST_F(SequenceNetwork, SecondOrderTrainingLearnsWhereverItsWorkersLive) {
  for (const char* network : {kTdnn, kLstm}) {
    TrainOptions options = Options();
    options.data.distribution = "shares";
    options.schedule.epochs = 4;
    const std::string parallel = "method = 'hessian-free'\ndamping = 0.3\ncurvature-minibatches = 8\n";
    const std::string folder = network == kTdnn ? "tdnn" : "lstm";
    TrainingTask task = Task(folder, network);
    task.parallel = Config::Parse(parallel, "parallel");
    EXPECT_GT(TrainHere(task, options).held_out_accuracy, 0.7) << network;
    options.schedule.epochs = 1;
    const std::string two = parallel + "workers = 2\n";
    EXPECT_EQ(
        Together(folder + "-threads", network, two, options),
        Together(folder + "-simulated", network, two + "world = 'simulated'\n", options, "host = {gflops = 0.5}\n"))
        << network;
  }
}

TEST_F(SequenceNetwork, WhatCannotBeIsRefused) {
  TrainOptions options = Options();
  EXPECT_THROW(Together("pool", kLstm, "method = 'ssgd'\nworkers = 2\n", options), UsageError);
  for (const char* method : {"pipeline", "model-parallel", "asgd-groups"}) {
    options.data.distribution = "pool";
    EXPECT_THROW(Together(method, kTdnn, fmt::format("method = '{}'\nworkers = 2\n", method), options), UsageError)
        << method;
  }
  options.data.chunk_frames = 0;
  EXPECT_THROW(TrainHere(Task("frames", kTdnn), options), UsageError);
  options = Options();
  options.pretrain.method = "discriminative";
  EXPECT_THROW(TrainHere(Task("pretrain", kTdnn), options), UsageError);
}

TEST_F(SequenceNetwork, TeachersAndTheirStudentsSeeOneWindowAtATime) {
  const auto teacher = [](const char* network) {
    auto model = std::make_shared<nn::Model>();
    model->feature_dim = 6;
    model->network = nn::Network(Config::Parse(network, "teacher"), 6, 8, 1);
    return model;
  };
  constexpr const char* kDnn = "layer = [{type='affine', dim=24}, {type='relu'}, {type='affine'}]";
  TrainOptions options = Options();
  TrainingTask task = Task("taught", kTdnn);
  task.teachers = {teacher(kDnn)};
  EXPECT_THROW(TrainHere(task, options), UsageError);
  task.network = Config::Parse(kDnn, "network");
  task.teachers = {teacher(kTdnn)};
  EXPECT_THROW(TrainHere(task, options), UsageError);
  task.teachers = {teacher(kDnn)};
  EXPECT_NO_THROW(TrainHere(task, options));
}

}  // namespace
}  // namespace antiphon::train
