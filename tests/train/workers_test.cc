// The trainer with several workers: by registered strategies, and by one of this file's own that averages after every
// step and can be told to fail.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/file.h"
#include "math/finite.h"
#include "parallel/strategy.h"
#include "report/metrics.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"
#include "train/world.h"

namespace antiphon::train {
namespace {

class AverageEveryStep : public parallel::Strategy {
 public:
  using Strategy::Strategy;
  static inline std::atomic<int64_t> cancel_at_step = -1;
  static inline std::atomic<int64_t> spoil_at_step = -1;  // once
  static inline std::atomic<int64_t> throw_at_step = -1;
  static inline std::atomic<bool> apart = false;  // nothing is averaged
  static inline std::atomic<double> rate_factor = 1;

  nn::GradientSink& BeginStep(const parallel::StepInput& input) override {
    parallel::StepInput mine = input;
    mine.learning_rate *= rate_factor;
    return Strategy::BeginStep(mine);
  }

 protected:
  optim::StepReport AfterStep(const parallel::StepInput& input) override {
    const optim::StepReport report = optimizer().EndStep();
    // Steps count over all workers: one of them is meant.
    int64_t step = input.context.step;
    if (step == throw_at_step) throw InputError("shard 1 is missing");
    if (spoil_at_step.compare_exchange_strong(step, -1)) network().values()[0] = NAN;
    if (apart) {
      comm().Barrier();
    } else {
      comm().AllReduce(network().values());
      for (float& v : network().values()) v /= static_cast<float>(comm().world_size());
    }
    network().MarkChanged();
    if (input.context.step == cancel_at_step) RequestCancel();
    return report;
  }
};
REGISTER_COMPONENT(parallel::StrategyRegistry, "test-average", [](const Config&, const parallel::Replica& replica) {
  return std::make_unique<AverageEveryStep>(replica);
});

// The optimiser of its table `step`, until one of its instances spoils its network, once.
class SpoilOnce : public optim::Optimizer {
 public:
  static inline std::atomic<int> spoil_after = -1;  // steps of all workers together
  static inline std::atomic<int> broken_steps = 0;  // to a network that is not finite, or too long to be taken
  SpoilOnce(const Config& config, const optim::SteppedValues& values)
      : network_(values.network), step_(optim::MakeOptimizer(config.Table("step"), values)) {}
  void BeginStep(double rate) override { step_->BeginStep(rate); }
  optim::StepReport EndStep() override {
    if (spoil_after.fetch_sub(1) == 0) network_.values()[0] = NAN;
    const optim::StepReport report = step_->EndStep();
    if (report.max_change_scale == 0 || !AllFinite(network_.values())) ++broken_steps;
    return report;
  }
  void TakeFactors(nn::Parameter& weight, nn::Parameter* bias, const nn::GradientFactors& factors) override {
    step_->TakeFactors(weight, bias, factors);
  }
  void TakeDense(nn::Parameter& parameter, ConstMatrixView gradient) override { step_->TakeDense(parameter, gradient); }
  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    step_->SaveState(writer, prefix);
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    step_->LoadState(reader, prefix);
  }
  void ResetState() override { step_->ResetState(); }
  void ResetMomentum() override { step_->ResetMomentum(); }
  size_t state_bytes() const override { return step_->state_bytes(); }

 private:
  nn::Network& network_;
  std::unique_ptr<optim::Optimizer> step_;
};
REGISTER_COMPONENT(optim::OptimizerRegistry, "test-spoil-once",
                   [](const Config& c, const optim::SteppedValues& v) { return std::make_unique<SpoilOnce>(c, v); });

std::vector<std::string> FallBacks(const std::filesystem::path& run) {
  std::vector<std::string> messages;
  for (const report::MetricsRecord& record : report::ReadMetrics(run / "metrics.jsonl")) {
    if (record.kind() == "event") messages.push_back(record.Text("message"));
  }
  return messages;
}

class WorkersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ResetCancel();
    AverageEveryStep::cancel_at_step = AverageEveryStep::spoil_at_step = AverageEveryStep::throw_at_step = -1;
    AverageEveryStep::apart = false;
    AverageEveryStep::rate_factor = 1;
    SpoilOnce::spoil_after = -1;
    SpoilOnce::broken_steps = 0;
    store_ = MakeSyntheticStore(folder_ / "store");
  }
  void TearDown() override { ResetCancel(); }

  std::vector<TrainingSummary> TrainTogether(const std::string& run, int workers, bool resume = false) {
    TrainingTask task = SmallTask(store_, folder_ / run);
    task.network = Config::Parse(
        "[[layer]]\ntype = \"affine\"\ndim = 24\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\n", "n");
    task.parallel = Config::Parse("method = \"test-average\"\n", "parallel");
    return TrainTask(task, workers, resume);
  }
  std::vector<TrainingSummary> TrainTask(const TrainingTask& task, int workers, bool resume = false,
                                         double rate = 0.5) {
    TrainOptions options = SmallOptions();
    options.schedule.learning_rate = rate;
    options.schedule.final_learning_rate = rate / 5;
    options.checkpoint.steps = 10;
    std::vector<TrainingSummary> summaries(static_cast<size_t>(workers));
    comm::RunRanks(workers, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      summaries[static_cast<size_t>(comm.rank())] = Trainer(task, options, comm).Run(resume);
    });
    return summaries;
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_;
};

TEST_F(WorkersTest, ShareTheDataAndEndWithOneModel) {
  const auto summaries = TrainTogether("run", 3);
  for (const TrainingSummary& summary : summaries) {
    EXPECT_EQ(summary.model_hash, summaries[0].model_hash);
    EXPECT_EQ(summary.held_out_loss, summaries[0].held_out_loss);
  }
  EXPECT_GT(summaries[0].held_out_accuracy, 0.6);
  // Each minibatch of an epoch is taken once, so an epoch has a third of a single worker's steps.
  EXPECT_EQ(summaries[0].steps, (TrainTogether("alone", 1)[0].steps + 2) / 3);
}

TEST_F(WorkersTest, PreTrainTheSameMachinesAsOneWorker) {
  TrainOptions options = SmallOptions();
  options.pretrain.method = PretrainMethod::kRbm;
  options.pretrain.epochs_per_layer = 0.3;
  options.schedule.epochs = 1;
  TrainingTask task = SmallTask(store_, folder_ / "rbm");
  task.network = Config::Parse(
      "[[layer]]\ntype = \"repeat\"\ntimes = 2\nlayers = [{type = \"affine\", dim = 16}, {type = \"sigmoid\"}]\n"
      "[[layer]]\ntype = \"affine\"\n",
      "network");
  std::vector<std::vector<double>> starts;
  for (const int workers : {1, 3}) {
    task.folder = folder_ / ("rbm" + std::to_string(workers));
    task.parallel = Config::Parse(workers == 1 ? "" : "method = \"ssgd\"\n", "parallel");
    comm::RunRanks(workers, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      Trainer(task, options, comm).Run(false);
    });
    std::vector<double>& found = starts.emplace_back();
    for (const auto& record : report::ReadMetrics(task.folder / "metrics.jsonl")) {
      if (record.kind() == "pretrain") found.push_back(*record.Number("reconstruction_error"));
      if (record.kind() == "start") found.push_back(std::round(1e9 * *record.Number("held_out_loss")));
    }
  }
  EXPECT_EQ(starts[0].size(), 3u);
  EXPECT_EQ(starts[0], starts[1]);
}

TEST_F(WorkersTest, ResumeAfterAStopIsBitIdentical) {
  const uint64_t whole = TrainTogether("whole", 2)[0].model_hash;
  AverageEveryStep::cancel_at_step = 60;
  EXPECT_THROW(TrainTogether("stopped", 2), Cancelled);
  ResetCancel();
  AverageEveryStep::cancel_at_step = -1;
  EXPECT_EQ(TrainTogether("stopped", 2, true)[0].model_hash, whole);
}

TEST_F(WorkersTest, OnASimulatedClusterGiveTheBitsOfThreads) {
  const uint64_t threads = TrainTogether("threads", 3)[0].model_hash;
  TrainingTask task = SmallTask(store_, folder_ / "simulated");
  task.network = Config::Parse(
      "[[layer]]\ntype = \"affine\"\ndim = 24\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\n", "n");
  task.parallel = Config::Parse("method = \"test-average\"\nworkers = 3\nworld = \"simulated\"\n", "parallel");
  const Config cluster = Config::Parse("host = {gflops = 0.5, jitter = 0.2, straggler-ranks = [1]}\n", "cluster");
  TrainOptions options = SmallOptions();
  options.checkpoint.steps = 10;
  TrainingSummary summary;
  const auto alone = comm::ProcessGroup::Alone();
  const auto report = RunWorkers(task.parallel, cluster, 1, *alone, [&](comm::Communicator& comm) {
    const TrainingSummary mine = Trainer(task, options, comm).Run(false);
    if (comm.rank() == 0) summary = mine;
  });
  EXPECT_EQ(summary.model_hash, threads);
  ASSERT_TRUE(report);
  EXPECT_GT(summary.virtual_seconds, 0);
  EXPECT_GE(report->seconds(), summary.virtual_seconds);
  // The straggler computes nearly all the time, the others wait for it.
  EXPECT_GT(report->ranks[1].compute_seconds, 0.8 * report->seconds());
  EXPECT_LT(report->ranks[0].compute_seconds, 0.5 * report->seconds());
}

TEST_F(WorkersTest, RefuseAnUnknownWorldAndAClusterThatNobodySimulates) {
  const auto nothing = [](comm::Communicator&) {};
  const Config cluster = Config::Parse("host = {gflops = 1}\n", "cluster");
  const auto alone = comm::ProcessGroup::Alone();
  EXPECT_THROW(RunWorkers(Config::Parse("world = \"clouds\"\n", "p"), Config(), 1, *alone, nothing), UsageError);
  EXPECT_THROW(RunWorkers(Config::Parse("workers = 2\n", "p"), cluster, 1, *alone, nothing), UsageError);
  EXPECT_THROW(RunWorkers(Config::Parse("workers = 0\n", "p"), Config(), 1, *alone, nothing), UsageError);
  const Config wrong = Config::Parse("host = {gflop = 1}\n", "cluster");
  EXPECT_THROW(RunWorkers(Config::Parse("world = \"simulated\"\n", "p"), wrong, 1, *alone, nothing), UsageError);
}

TEST_F(WorkersTest, StartAnewWhenACheckpointLacksARank) {
  TrainTogether("run", 2);
  // Without the second rank's files nobody has a checkpoint that is whole: the run starts anew, and says so.
  for (const auto& entry : std::filesystem::directory_iterator(CheckpointPath(folder_ / "run"))) {
    if (entry.path().string().find("rank-1") != std::string::npos) std::filesystem::remove(entry.path());
  }
  EXPECT_EQ(TrainTogether("run", 2, true)[0].model_hash, TrainTogether("fresh", 2)[0].model_hash);
}

TEST_F(WorkersTest, OtherNumbersOfWorkersGoOnWithTheRestOfTheData) {
  const int64_t frames = TrainTogether("whole", 2)[0].frames;
  for (const auto& [before, after] : {std::pair(2, 3), std::pair(3, 2), std::pair(2, 1)}) {
    const std::string run = "from" + std::to_string(before) + "to" + std::to_string(after);
    AverageEveryStep::cancel_at_step = before * 17;
    EXPECT_THROW(TrainTogether(run, before), Cancelled);
    ResetCancel();
    AverageEveryStep::cancel_at_step = -1;
    const auto summaries = TrainTogether(run, after, true);
    for (const TrainingSummary& summary : summaries) EXPECT_EQ(summary.model_hash, summaries[0].model_hash) << run;
    EXPECT_EQ(summaries[0].frames, frames) << run << ": every frame is seen as often as before";
    EXPECT_GT(summaries[0].held_out_accuracy, 0.6) << run;
    const auto messages = FallBacks(folder_ / run);
    ASSERT_EQ(messages.size(), 1u) << run;
    EXPECT_NE(messages[0].find(std::to_string(after) + " workers go on where " + std::to_string(before) + " were"),
              std::string::npos)
        << messages[0];
  }
}

// In the middle of an epoch, by replicas that are apart. The others' rates leave the model as they find it.
TEST_F(WorkersTest, OtherNumbersOfWorkersGoOnFromTheMeanOfTheReplicas) {
  for (const auto& [before, after] : {std::pair(2, 3), std::pair(3, 2), std::pair(2, 1)}) {
    const std::string run = "mean-of-" + std::to_string(before) + "-by-" + std::to_string(after);
    AverageEveryStep::apart = true;
    AverageEveryStep::rate_factor = 1;
    AverageEveryStep::cancel_at_step = before * 7;
    EXPECT_THROW(TrainTogether(run, before), Cancelled);
    const CheckpointFolder folder(CheckpointPath(folder_ / run), 0, before, 1);
    const auto replicas = folder.OpenAll(folder.NewestSound(1 << 20).value().step, before);

    ResetCancel();
    AverageEveryStep::cancel_at_step = -1;
    AverageEveryStep::apart = false;
    AverageEveryStep::rate_factor = 1e-12;
    TrainTogether(run, after, true);
    const nn::Model model = nn::Model::Load(ModelFile(folder_ / run));
    double apart = 0;
    for (const nn::Parameter* p : model.network.parameters()) {
      std::vector<Matrix> values;
      for (const SafetensorsReader& replica : replicas) values.push_back(replica.ReadMatrix("network." + p->name));
      for (int64_t i = 0; i < p->value.size(); ++i) {
        double mean = 0;
        for (const Matrix& of_replica : values) mean += static_cast<double>(of_replica.data()[i]) / before;
        ASSERT_NEAR(p->value.data()[i], mean, 1e-5) << run << ": " << p->name;
        apart = std::max(apart, std::abs(mean - static_cast<double>(values[0].data()[i])));
      }
    }
    EXPECT_GT(apart, 1e-3) << run;
  }
}

TEST_F(WorkersTest, GrowingNumbersOfWorkersSeeEveryFrame) {
  const int64_t frames = TrainTogether("whole", 2)[0].frames;
  TrainingTask task = SmallTask(store_, folder_ / "growing");
  task.parallel = Config::Parse("method = \"natural-gradient-averaging\"\nsync-period = 3\ninitial-workers = 1\n", "p");
  const auto summaries = TrainTask(task, 3);
  EXPECT_EQ(summaries[0].frames, frames);
  EXPECT_EQ(summaries[1].model_hash, summaries[0].model_hash);
  EXPECT_GT(summaries[0].held_out_accuracy, 0.6);
}

TEST_F(WorkersTest, EveryMethodEndsWithOneModelWhoseStatisticsFitIt) {
  for (const char* method : {"ssgd", "averaging", "bmuf", "easgd", "admm", "natural-gradient-averaging"}) {
    TrainingTask task = SmallTask(store_, folder_ / method);  // with batch normalisation and dropout
    const std::string keys = std::string(method) == "ssgd" ? "" : "sync-period = 4\n";
    task.parallel = Config::Parse(std::string("method = \"") + method + "\"\n" + keys, "parallel");
    const auto summaries = TrainTask(task, 3);
    for (const TrainingSummary& summary : summaries) {
      EXPECT_EQ(summary.model_hash, summaries[0].model_hash) << method;
      EXPECT_EQ(summary.frames, summaries[0].frames) << method;
    }
    EXPECT_GT(summaries[0].held_out_accuracy, 0.6) << method;
    EXPECT_GT(summaries[0].bytes_sent, 0) << method;
    EXPECT_EQ(nn::Model::Load(ModelFile(task.folder)).network.Hash(), summaries[0].model_hash) << method;
  }
}

// Of a layer that normalises inside, statistics alone are sums over workers.
TEST_F(WorkersTest, WhatAnInnerLayerKeepsIsNotAddedUp) {
  const auto train = [&](int workers, const std::string& run, const std::shared_ptr<const nn::Model>& initial) {
    TrainingTask task = SmallTask(store_, folder_ / run);
    task.initial = initial;
    task.network = Config::Parse(
        "[[layer]]\ntype = \"affine\"\ndim = 8\n[[layer]]\ntype = \"residual\"\nlayers = [{type = "
        "\"quantized-affine\", dim = 8, weight-bits = 8, input-bits = 8}, {type = \"relu\"}, {type = "
        "\"batch-norm\"}]\n[[layer]]\ntype = \"affine\"\n",
        "network");
    task.parallel = Config::Parse("method = \"ssgd\"\n", "parallel");
    TrainTask(task, workers);
    return nn::Model::Load(ModelFile(task.folder));
  };
  const auto first = std::make_shared<nn::Model>(train(1, "first", nullptr));
  const auto ranges = [](nn::Model& model) {
    std::vector<nn::Parameter*> found;
    for (nn::Parameter* p : model.network.buffers()) {
      if (p->name.find("input_") != std::string::npos) found.push_back(p);
    }
    return found;
  };
  ASSERT_EQ(ranges(*first).size(), 2U);
  for (nn::Parameter* p : ranges(*first)) p->value(0, 0) = p->name.find("zero") != std::string::npos ? 3.0f : 0.05f;
  nn::Model again = train(3, "again", first);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(ranges(again)[i]->value(0, 0), ranges(*first)[i]->value(0, 0));
}

TEST_F(WorkersTest, OnesDivergenceBringsAllBack) {
  AverageEveryStep::spoil_at_step = 2 * 33 + 1;  // worker 1, step 33
  const auto summaries = TrainTogether("run", 2);
  EXPECT_EQ(summaries[0].model_hash, summaries[1].model_hash);
  EXPECT_GT(summaries[0].held_out_accuracy, 0.6);
  const auto messages = FallBacks(folder_ / "run");
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_NE(messages[0].find("back to step 32"), std::string::npos) << messages[0];
}

TEST_F(WorkersTest, AveragingGoesOnWithoutTheOneThatDiverged) {
  SpoilOnce::spoil_after = 50;
  TrainingTask task = SmallTask(store_, folder_ / "run");
  task.optimizer = Config::Parse("type = \"test-spoil-once\"\nstep.type = \"sgd\"\n", "optimizer");
  task.parallel = Config::Parse("method = \"averaging\"\nsync-period = 4\n", "parallel");
  const auto summaries = TrainTask(task, 3);
  EXPECT_LT(SpoilOnce::spoil_after, -1) << "nobody was spoilt";
  EXPECT_EQ(summaries[1].model_hash, summaries[0].model_hash);
  EXPECT_GT(summaries[0].held_out_accuracy, 0.6);
  EXPECT_TRUE(FallBacks(folder_ / "run").empty());
}

TEST_F(WorkersTest, AveragingOfTwoGoesOnWithTheOneThatIsSound) {
  SpoilOnce::spoil_after = 50;
  TrainingTask task = SmallTask(store_, folder_ / "run");
  task.optimizer = Config::Parse("type = \"test-spoil-once\"\nstep.type = \"sgd\"\n", "optimizer");
  task.parallel = Config::Parse("method = \"averaging\"\nsync-period = 4\n", "parallel");
  const auto summaries = TrainTask(task, 2);
  EXPECT_LT(SpoilOnce::spoil_after, -1) << "nobody was spoilt";
  EXPECT_EQ(summaries[1].model_hash, summaries[0].model_hash);
  EXPECT_GT(summaries[0].held_out_accuracy, 0.6);
  EXPECT_TRUE(FallBacks(folder_ / "run").empty());
}

// What the optimiser remembers of the broken steps would break the next ones.
TEST_F(WorkersTest, WhoWasLeftOutOnceLearnsOnWithTheOthers) {
  const std::pair<std::string, std::string> steps[] = {{"averaging", "type = \"sgd\"\nmomentum = 0.9\n"},
                                                       {"averaging", "type = \"adam\"\n"},
                                                       {"bmuf", "type = \"adam\"\n"},
                                                       {"easgd", "type = \"sgd\"\nmomentum = 0.9\n"},
                                                       {"admm", "type = \"sgd\"\nmomentum = 0.9\nmax-change = 5\n"}};
  for (size_t i = 0; i < std::size(steps); ++i) {
    const auto& [method, step] = steps[i];
    SpoilOnce::spoil_after = 50;
    SpoilOnce::broken_steps = 0;
    TrainingTask task = SmallTask(store_, folder_ / std::to_string(i));
    task.optimizer = Config::Parse("type = \"test-spoil-once\"\n[step]\n" + step, "optimizer");
    task.parallel = Config::Parse("method = \"" + method + "\"\nsync-period = 4\n", "parallel");
    const auto summaries = TrainTask(task, 2, false, step.find("adam") != std::string::npos ? 0.01 : 0.5);
    EXPECT_LT(SpoilOnce::spoil_after, -1) << "nobody was spoilt";
    EXPECT_GT(SpoilOnce::broken_steps, 0) << method << ", " << step;
    EXPECT_LE(SpoilOnce::broken_steps, 4) << method << ", " << step << ": broken after the next exchange, too";
    EXPECT_EQ(summaries[1].model_hash, summaries[0].model_hash) << method << ", " << step;
    EXPECT_GT(summaries[0].held_out_accuracy, 0.6) << method << ", " << step;
    EXPECT_TRUE(FallBacks(task.folder).empty()) << method << ", " << step;
  }
}

TEST_F(WorkersTest, WhoDoesNotResumeWithTheOthersIsNamedAtOnce) {
  TrainTogether("run", 2);
  TrainingTask task = SmallTask(store_, folder_ / "run");
  task.parallel = Config::Parse("method = \"test-average\"\n", "parallel");
  TrainOptions options = SmallOptions();
  options.deadline_seconds = 5;
  try {
    comm::RunRanks(2, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      Trainer(task, options, comm).Run(comm.rank() == 0);
    });
    FAIL() << "one rank resumed, the other began anew";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("'resume = false', rank 0 'resume = true'"), std::string::npos) << e.what();
  }
}

TEST_F(WorkersTest, OnesErrorEndsTheRunForAll) {
  AverageEveryStep::throw_at_step = 2 * 20 + 1;
  try {
    TrainTogether("run", 2);
    FAIL() << "expected the error of worker 1";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("shard 1 is missing"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("rank 1"), std::string::npos) << e.what();
  }
  // What was saved before is whole, and training goes on from it.
  AverageEveryStep::throw_at_step = -1;
  EXPECT_EQ(TrainTogether("run", 2, true)[0].model_hash, TrainTogether("whole", 2)[0].model_hash);
}

TEST_F(WorkersTest, ResumeFromTheNewestStepThatAllHaveWhole) {
  const uint64_t whole = TrainTogether("whole", 2)[0].model_hash;
  AverageEveryStep::cancel_at_step = 60;
  EXPECT_THROW(TrainTogether("stopped", 2), Cancelled);
  ResetCancel();
  AverageEveryStep::cancel_at_step = -1;
  // Worker 1's newest file was cut short.
  std::filesystem::path newest;
  for (const auto& entry : std::filesystem::directory_iterator(CheckpointPath(folder_ / "stopped"))) {
    if (entry.path().string().find("rank-1") != std::string::npos) newest = std::max(newest, entry.path());
  }
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) / 2);
  EXPECT_EQ(TrainTogether("stopped", 2, true)[0].model_hash, whole);
}

}  // namespace
}  // namespace antiphon::train
