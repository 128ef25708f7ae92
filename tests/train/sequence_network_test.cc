// Networks that look at several frames or carry a state, trained: they learn, resume in the middle of utterances, and
// work whether workers hold whole networks or parts of one.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/cancel.h"
#include "base/compute_threads.h"
#include "parallel/strategy.h"
#include "temporary_folder.h"
#include "train/checkpoint.h"
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
  // What several workers learn.
  TrainingSummary Summary(const std::string& folder, const std::string& network, const std::string& parallel,
                          const TrainOptions& options, const std::string& cluster = "", bool resume = false) const {
    TrainingTask task = Task(folder, network);
    task.parallel = Config::Parse(parallel, "parallel");
    TrainingSummary summary;
    const auto alone = comm::ProcessGroup::Alone();
    RunWorkers(task.parallel, Config::Parse(cluster, "cluster"), 1, *alone, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      const TrainingSummary mine = Trainer(task, options, comm).Run(resume);
      if (comm.rank() == 0) summary = mine;
    });
    return summary;
  }
  uint64_t Together(const std::string& folder, const std::string& network, const std::string& parallel,
                    const TrainOptions& options, const std::string& cluster = "") const {
    return Summary(folder, network, parallel, options, cluster).model_hash;
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
       "layer = [{type='tdnn', dim=24}, {type='relu'}, {type='tdnn-f', dim=24, bottleneck=8}, {type='affine'}]"},
      {"bidirectional", "layer = [{type='bidirectional', right=2, layers=[{type='gru', dim=12}]}, {type='affine'}]"},
      {"residual",
       "layer = [{type='tdnn', dim=24}, {type='relu'}, {type='residual', scale=0.7, layers=[{type='tdnn', dim=24, "
       "offsets=[-2, 0, 2]}, {type='relu'}, {type='batch-norm'}]}, {type='affine'}]"}};
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

// Chunks of several widths, outputs at every third frame of a moving grid, masks per chunk, rows that are kept
// orthogonal, natural gradient with limited steps, and a second branch that the trained model has no more.
TEST_F(SequenceNetwork, AChainNetworkIsResumedToTheBitAndLosesItsBranch) {
  TrainingTask task = Task("whole",
                           "layer = [{type='spec-mask', per-chunk=true, max-bands=2}, {type='tdnn', dim=24}, "
                           "{type='relu'}, {type='batch-norm'}, {type='tdnn-f', dim=24, bottleneck=8, stride=3, "
                           "dropout=0.2}, {type='tdnn-f', dim=24, bottleneck=8}, {type='linear', dim=12, "
                           "orthonormal=true}, {type='side-task', task='x', layers=[{type='prefinal', dim=24, "
                           "bottleneck=8}, {type='affine'}]}, {type='affine', weight-decay-factor=0.5}]");
  task.parallel = Config::Parse("method = 'test-stop'", "parallel");
  task.optimizer = Config::Parse(
      "type = 'natural-gradient'\n[step]\nmax-change = 2.0\nlayer-max-change = 0.75\nweight-decay = "
      "0.001\ndecoupled-decay = false\n",
      "optimizer");
  TrainOptions options = Options();
  options.data.other_chunk_frames = {21, 30};
  options.data.minibatch = 120;
  options.data.carry_state = false;
  const TrainingSummary whole = TrainHere(task, options);
  EXPECT_GT(whole.held_out_accuracy, 0.5);
  const nn::Network trained = nn::Model::Load(ModelFile(task.folder)).network;
  for (size_t i = 0; i < trained.num_layers(); ++i) EXPECT_NE(trained.layer_type(i), "side-task");
  for (const int64_t step : {0, 7, 13}) {
    task.folder = folder_ / ("stopped" + std::to_string(step));
    StopAtStep::step = step;
    EXPECT_THROW(TrainHere(task, options), Cancelled);
    ResetCancel();
    StopAtStep::step = -1;
    EXPECT_EQ(TrainHere(task, options, true).model_hash, whole.model_hash) << "step " << step;
  }
}

TEST_F(SequenceNetwork, WorkersGiveTheSameBitsWhereverTheyLive) {
  for (const char* method : {"ssgd", "averaging", "bmuf", "easgd", "eamsgd", "admm", "natural-gradient-averaging"}) {
    TrainOptions options = Options();
    options.data.distribution = data::Distribution::kShares;
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

// Carried states, padding, evaluation by the ranks together, and statistics gathered anew.
TEST_F(SequenceNetwork, RanksThatHoldOneModelTrainAsOneWorker) {
  TrainOptions options = Options();
  options.schedule.epochs = 1;
  for (const char* network : {kTdnn, kLstm}) {
    SCOPED_TRACE(network);
    std::filesystem::remove_all(folder_ / "one");
    std::filesystem::remove_all(folder_ / "striped");
    const TrainingSummary one = Summary("one", network, "method = 'serial'\n", options);
    const TrainingSummary striped = Summary("striped", network, "method = 'model-parallel'\nworkers = 3\n", options);
    EXPECT_NEAR(striped.held_out_loss, one.held_out_loss, 1e-3);
    EXPECT_EQ(striped.steps, one.steps);
    // Every frame once, whoever of two replicas has its utterance.
    std::filesystem::remove_all(folder_ / "grid");
    options.data.distribution = data::Distribution::kShares;
    const TrainingSummary grid =
        Summary("grid", network, "method = 'model-parallel'\nworkers = 4\nstripes = 2\n", options);
    options.data.distribution = data::Distribution::kPool;
    EXPECT_EQ(grid.frames, one.frames);
  }
}

TEST_F(SequenceNetwork, PipelinesAndGroupsLearn) {
  TrainOptions options = Options();
  options.schedule.learning_rate = 0.2;
  const double by_chance = 1.0 / 8;
  for (const char* network : {kTdnn, kLstm}) {
    const std::string name = network == kTdnn ? "tdnn" : "lstm";
    options.data.carry_state = true;
    const TrainingSummary stages = Summary(name + "-stages", network, "method = 'pipeline'\nworkers = 3\n", options);
    EXPECT_GT(stages.held_out_accuracy, 4 * by_chance) << name;
    options.data.carry_state = false;
    const TrainingSummary groups =
        Summary(name + "-groups", network, "method = 'asgd-groups'\nworkers = 4\nstripes = 2\n", options);
    EXPECT_GT(groups.held_out_accuracy, 4 * by_chance) << name;
  }
}

// From the newest checkpoint that is left, in the middle of utterances; replicas of a grid have their own.
TEST_F(SequenceNetwork, DividedModelsGoOnInTheMiddleOfUtterancesBitForBit) {
  constexpr int64_t kStopped = 14;
  TrainOptions options = Options();
  options.schedule.epochs = 1;
  options.checkpoint.steps = 7;
  options.checkpoint.keep = 1000;
  const std::pair<const char*, const char*> methods[] = {
      {"pipeline", "method = 'pipeline'\nworkers = 3\n"},
      {"model-parallel", "method = 'model-parallel'\nworkers = 2\n"},
      {"grid", "method = 'model-parallel'\nworkers = 4\nstripes = 2\n"}};
  for (const auto& [name, parallel] : methods) {
    SCOPED_TRACE(name);
    options.data.distribution = std::string(name) == "grid" ? data::Distribution::kShares : data::Distribution::kPool;
    const TrainingSummary whole = Summary(name, kLstm, parallel, options);
    ASSERT_GT(whole.steps, kStopped);
    const CheckpointFolder checkpoints(CheckpointPath(folder_ / name), 0, 1, 1);
    for (int64_t step = kStopped + 1; step <= whole.steps; ++step) {
      for (int rank = 0; rank < 4; ++rank) std::filesystem::remove(checkpoints.File(step, rank));
    }
    ASSERT_TRUE(std::filesystem::exists(checkpoints.File(kStopped, 0)));
    EXPECT_EQ(Summary(name, kLstm, parallel, options, "", true).model_hash, whole.model_hash);
  }
}

// The states are those of the utterances, whoever computes the rows.
TEST_F(SequenceNetwork, AnotherNumberOfRanksGoesOnInTheMiddleOfUtterances) {
  TrainOptions options = Options();
  options.schedule.epochs = 1;
  options.schedule.learning_rate = options.schedule.final_learning_rate = 1e-6;
  options.data.chunk_frames = 5;
  options.data.minibatch = 40;
  options.checkpoint.steps = 7;
  options.checkpoint.keep = 1000;
  const auto parallel = [](int workers) { return fmt::format("method = 'model-parallel'\nworkers = {}\n", workers); };
  options.log_steps = 1;
  // Of the minibatches behind step 7, by their lines in the log: weights hardly move.
  const auto losses_behind = [&](int workers) {
    std::filesystem::remove_all(folder_ / "run");
    const TrainingSummary whole = Summary("run", kLstm, parallel(2), options);
    const CheckpointFolder checkpoints(CheckpointPath(folder_ / "run"), 0, 1, 1);
    for (int64_t step = 8; step <= whole.steps; ++step) {
      for (int rank = 0; rank < 2; ++rank) std::filesystem::remove(checkpoints.File(step, rank));
    }
    EXPECT_EQ(Summary("run", kLstm, parallel(workers), options, "", true).frames, whole.frames);
    std::vector<double> losses;
    std::ifstream metrics(folder_ / "run" / "metrics.jsonl");
    for (std::string line; std::getline(metrics, line);) {
      const nlohmann::json json = nlohmann::json::parse(line);
      if (json.at("kind") == "step" && json.at("step") > 7) losses.push_back(json.at("train_loss"));
    }
    return losses;
  };
  const std::vector<double> same = losses_behind(2);
  ASSERT_GT(same.size(), 20u);
  for (const int workers : {1, 3}) {
    const std::vector<double> other = losses_behind(workers);
    ASSERT_EQ(other.size(), same.size());
    for (size_t i = 0; i < same.size(); ++i) EXPECT_NEAR(other[i], same[i], 1e-4) << workers << " workers, " << i;
  }
}

TEST_F(SequenceNetwork, SecondOrderTrainingLearnsWhereverItsWorkersLive) {
  for (const char* network : {kTdnn, kLstm}) {
    TrainOptions options = Options();
    options.data.distribution = data::Distribution::kShares;
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
  EXPECT_THROW(Together("grid", kLstm, "method = 'model-parallel'\nworkers = 4\nstripes = 2\n", options), UsageError);
  options.data.distribution = data::Distribution::kShards;
  EXPECT_THROW(Together("shards", kTdnn, "method = 'pipeline'\nworkers = 2\n", options), UsageError);
  options.data.distribution = data::Distribution::kPool;
  options.data.chunk_frames = 0;
  EXPECT_THROW(TrainHere(Task("frames", kTdnn), options), UsageError);
  options = Options();
  options.pretrain.method = PretrainMethod::kDiscriminative;
  EXPECT_THROW(TrainHere(Task("pretrain", kTdnn), options), UsageError);
}

TEST_F(SequenceNetwork, TeachersThatLookOnSeeWhatTheirStudentsSee) {
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
