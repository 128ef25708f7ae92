// The trainer with workers that do not each hold a replica, or do not go in step.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "base/cancel.h"
#include "base/compute_threads.h"
#include "nn/model.h"
#include "report/metrics.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"
#include "train/worker.h"
#include "train/world.h"

namespace antiphon::train {
namespace {

class AsynchronousTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ResetCancel();
    store_ = MakeSyntheticStore(folder_ / "store");
  }
  void TearDown() override { ResetCancel(); }

  TrainingTask Task(const std::string& run, const std::string& parallel) {
    TrainingTask task = SmallTask(store_, folder_ / run);
    task.network = Config::Parse(
        "[[layer]]\ntype = \"affine\"\ndim = 24\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\n"
        "dim = 24\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"dropout\"\nproportion = 0.1\n"
        "[[layer]]\ntype = \"affine\"\n",
        "n");
    task.parallel = Config::Parse(parallel, "parallel");
    return task;
  }
  std::vector<TrainingSummary> Train(const std::string& run, int workers, const std::string& parallel,
                                     bool resume = false, int64_t epochs = 3) {
    const TrainingTask task = Task(run, parallel);
    TrainOptions options = SmallOptions();
    options.schedule.epochs = static_cast<int>(epochs);
    options.checkpoint.steps = checkpoint_steps_;
    options.checkpoint.minutes = checkpoint_minutes_;
    std::vector<TrainingSummary> summaries(static_cast<size_t>(workers));
    comm::RunRanks(workers, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      comm.set_deadline_seconds(60);
      summaries[static_cast<size_t>(comm.rank())] = Trainer(task, options, comm).Run(resume);
    });
    return summaries;
  }

  report::MetricsRecord LastEpoch(const std::string& run) {
    report::MetricsRecord last;
    for (const report::MetricsRecord& record : report::ReadMetrics(folder_ / run / "metrics.jsonl")) {
      if (record.kind() == "epoch") last = record;
    }
    return last;
  }

  int64_t checkpoint_steps_ = 10;
  double checkpoint_minutes_ = 5;
  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_;
};

TEST_F(AsynchronousTest, OneWorkerIsPlainTraining) {
  const uint64_t plain = Train("serial", 1, "method = \"serial\"\n")[0].model_hash;
  for (const std::string method : {"asgd", "host-master", "pipeline", "model-parallel"}) {
    EXPECT_EQ(Train(method, 1, "method = \"" + method + "\"\n")[0].model_hash, plain) << method;
  }
}

TEST_F(AsynchronousTest, AllRanksEndWithOneModelThatHasLearned) {
  const TrainingSummary alone = Train("serial", 1, "method = \"serial\"\n")[0];
  for (const std::string method : {"asgd", "host-master", "pipeline", "model-parallel"}) {
    // Dropped minibatches would be trained on twice.
    const std::string keys = method == "asgd" || method == "host-master" ? "max-staleness = -1\n" : "";
    const auto summaries = Train(method, 3, "method = \"" + method + "\"\n" + keys);
    for (const TrainingSummary& s : summaries) EXPECT_EQ(s.model_hash, summaries[0].model_hash) << method;
    EXPECT_GT(summaries[0].held_out_accuracy, 0.6) << method;
    EXPECT_EQ(summaries[0].frames, alone.frames) << method << ": every frame counts once";
    // Rank 0 of a pipeline of three stages misses four updates, fewer in each epoch's first steps.
    const std::optional<double> staleness = LastEpoch(method).Number("staleness");
    if (method == "pipeline") {
      EXPECT_GT(staleness.value_or(0), 3.0);
      EXPECT_LE(staleness.value_or(0), 4.0);
    }
    if (method == "model-parallel") {
      EXPECT_FALSE(staleness.has_value());
    }
  }
}

// Whatever a rank waits for, beginnings and ends of rounds too, is exchange, and counts once.
TEST_F(AsynchronousTest, TimesOfARunAddUpToNoMoreThanItTook) {
  for (const std::string method : {"asgd", "pipeline", "model-parallel", "asgd-groups"}) {
    const double seconds = Train(method, 2, "method = \"" + method + "\"\n")[0].seconds;
    const report::MetricsRecord record = LastEpoch(method);
    double sum = 0;
    for (const char* key : {"arithmetic_seconds", "data_seconds", "communication_seconds", "other_seconds"}) {
      EXPECT_GE(record.Number(key).value_or(-1), 0) << method << ": " << key;
      sum += record.Number(key).value_or(0);
    }
    EXPECT_GT(record.Number("communication_seconds").value_or(0), 0) << method;
    EXPECT_LE(sum, seconds) << method;
  }
}

// It stops at the first agreement, in the middle of an epoch, with minibatches under way.
TEST_F(AsynchronousTest, AStoppedRunIsResumed) {
  for (const std::string method : {"asgd", "pipeline", "model-parallel"}) {
    const std::string parallel = "method = \"" + method + "\"\n";
    RequestCancel();
    EXPECT_THROW(Train(method, 2, parallel), Cancelled) << method;
    ResetCancel();
    const TrainingSummary resumed = Train(method, 2, parallel, true)[0];
    EXPECT_GT(resumed.held_out_accuracy, 0.6) << method;
    if (method == "asgd") continue;
    EXPECT_EQ(resumed.model_hash, Train(method + "-whole", 2, parallel)[0].model_hash) << method;
  }
}

TEST_F(AsynchronousTest, OptionsThatChangeTheCourseOfARun) {
  for (const std::string parallel :
       {"method = \"asgd\"\nwarm-start-epochs = 1\n", "method = \"asgd\"\nstaleness-bound = 1\npush-every = 3\n",
        "method = \"asgd\"\nserver-update = \"momentum\"\nserver-momentum = 0.5\nserver-rate-factor = 0.5\n",
        "method = \"pipeline\"\nbalance = \"measured\"\n", "method = \"pipeline\"\nfirst-layers = [0, 5]\n",
        "method = \"pipeline\"\noutput-stripes = 2\n", "method = \"asgd-groups\"\n"}) {
    const int workers = parallel.find("stripes") != std::string::npos ? 3 : 2;
    std::filesystem::remove_all(folder_ / "run");
    const auto summaries = Train("run", workers, parallel);
    for (const TrainingSummary& s : summaries) EXPECT_EQ(s.model_hash, summaries[0].model_hash) << parallel;
    EXPECT_GT(summaries[0].held_out_accuracy, 0.55) << parallel;
  }
}

// An epoch has 20 steps; those who are asked to stop look for each other every 16.
TEST_F(AsynchronousTest, AnAsynchronousCentreIsSavedWithinAnEpoch) {
  const std::string parallel = "method = \"easgd\"\nasynchronous = true\nsync-period = 3\n";
  for (const int64_t steps : {10, 0}) {
    checkpoint_steps_ = steps;
    const std::string run = "run" + std::to_string(steps);
    RequestCancel();
    try {
      Train(run, 3, parallel);
      FAIL() << "not stopped";
    } catch (const Cancelled& e) {
      const std::string found = "in epoch 1 after " + std::to_string(steps > 0 ? steps : 16) + " steps";
      EXPECT_NE(std::string(e.what()).find(found), std::string::npos) << e.what();
    }
    ResetCancel();
    const auto resumed = Train(run, 3, parallel, true);
    const auto whole = Train(run + "-whole", 3, parallel);
    EXPECT_EQ(resumed[0].steps, whole[0].steps);
    EXPECT_EQ(resumed[0].frames, whole[0].frames);
    EXPECT_EQ(resumed[1].model_hash, resumed[0].model_hash);
    EXPECT_GT(resumed[0].held_out_accuracy, 0.6);
  }
}

// The log is that of the whole run, stops by the clock and on request included.
// A rate that breaks all workers ruins the centre with them: they go back to a checkpoint, as others do.
TEST_F(AsynchronousTest, ElasticWorkersFallBackWhereTheRateIsTooHigh) {
  for (const std::string method : {"easgd", "eamsgd"}) {
    for (const std::string keys : {"", "asynchronous = true\n"}) {
      const std::string run = method + (keys.empty() ? "" : "-asynchronous");
      TrainingTask task = Task(run, "method = \"" + method + "\"\nsync-period = 2\n" + keys);
      TrainOptions options = SmallOptions();
      options.schedule.learning_rate = 50;
      options.schedule.final_learning_rate = 10;
      options.guard.rate_factor = 0.01;
      comm::RunRanks(3, [&](comm::Communicator& comm) {
        SetComputeThreads(1);
        comm.set_deadline_seconds(60);
        const TrainingSummary summary = Trainer(task, options, comm).Run(false);
        EXPECT_GT(summary.held_out_accuracy, 0.6) << run;
      });
      int fallbacks = 0;
      for (const report::MetricsRecord& record : report::ReadMetrics(task.folder / "metrics.jsonl")) {
        fallbacks += record.Text("what") == "fallback" ? 1 : 0;
      }
      EXPECT_EQ(fallbacks, 1) << run;
    }
  }
}

TEST_F(AsynchronousTest, ARunThatWasStoppedAndWentOnIsReplayed) {
  const std::string log = (folder_ / "arrivals").string();
  const std::string logging = "method = \"asgd\"\narrival-log = \"" + log + "\"\n";
  checkpoint_minutes_ = 1e-6;
  RequestCancel();
  EXPECT_THROW(Train("logged", 2, logging), Cancelled);
  ResetCancel();
  const uint64_t whole = Train("logged", 2, logging, true)[0].model_hash;
  checkpoint_minutes_ = 0;
  EXPECT_EQ(Train("replayed", 2, "method = \"asgd\"\nreplay = \"" + log + "\"\n")[0].model_hash, whole);
}

// The synchronous epochs of a warm start come back too.
TEST_F(AsynchronousTest, AWarmStartIsResumed) {
  const std::string parallel = "method = \"asgd\"\nwarm-start-epochs = 3\n";
  const uint64_t whole = Train("whole", 2, parallel)[0].model_hash;
  RequestCancel();
  EXPECT_THROW(Train("stopped", 2, parallel), Cancelled);
  ResetCancel();
  EXPECT_EQ(Train("stopped", 2, parallel, true)[0].model_hash, whole);
}

// A single worker takes all minibatches: its average is all that there is.
TEST_F(AsynchronousTest, ServersOfTheirOwnHaveNoPartInAverages) {
  const TrainingTask task = Task("run", "method = \"asgd\"\nservers = 1\ndedicated-servers = true\n");
  std::filesystem::create_directories(task.folder);
  TrainOptions options = SmallOptions();
  options.data.distribution = data::Distribution::kPool;
  options.average = {.share = 1, .halvings = 0, .every_steps = 1};
  std::vector<float> averaged;
  std::vector<std::vector<float>> taken(2);
  comm::RunRanks(2, [&](comm::Communicator& comm) {
    SetComputeThreads(1);
    comm.set_deadline_seconds(60);
    parallel::SurvivingCommunicator ranks(comm);
    Worker worker(task, options, ranks);
    worker.StartAnew();
    worker.loader().StartStrategy();
    worker.RunEpoch();
    ASSERT_EQ(worker.CountAverages(), 1u);
    if (comm.rank() == 0) averaged = worker.run().kept.averages()[0];
    worker.SwapInAverage(0);
    const std::span<const float> values = worker.network().values();
    taken[static_cast<size_t>(comm.rank())].assign(values.begin(), values.end());
  });
  ASSERT_FALSE(averaged.empty());
  EXPECT_EQ(taken[0], averaged);
  EXPECT_EQ(taken[1], averaged);
}

// Nor after a warm start, in which they learned, too: what they averaged then would stay in their checkpoints.
TEST_F(AsynchronousTest, ServersOfTheirOwnForgetTheAveragesOfAWarmStart) {
  const TrainingTask task =
      Task("run", "method = \"asgd\"\nservers = 1\ndedicated-servers = true\nwarm-start-epochs = 1\n");
  std::filesystem::create_directories(task.folder);
  TrainOptions options = SmallOptions();
  options.data.distribution = data::Distribution::kPool;
  options.average = {.share = 1, .halvings = 0, .every_steps = 1};
  std::vector<std::vector<int64_t>> warm(2), then(2);
  std::vector<size_t> kept(2, 0);
  comm::RunRanks(2, [&](comm::Communicator& comm) {
    SetComputeThreads(1);
    comm.set_deadline_seconds(60);
    parallel::SurvivingCommunicator ranks(comm);
    Worker worker(task, options, ranks);
    worker.StartAnew();
    worker.loader().StartStrategy();
    worker.RunEpoch();
    worker.EndSteps();
    const auto rank = static_cast<size_t>(comm.rank());
    warm[rank] = worker.position().averaged;
    worker.run().state.NextEpoch(false);
    worker.RunEpoch();
    then[rank] = worker.position().averaged;
    kept[rank] = worker.run().kept.averages().size();
    EXPECT_EQ(worker.CountAverages(), 1u);
  });
  ASSERT_EQ(warm[0].size(), 1u);
  EXPECT_EQ(warm[1], warm[0]);
  ASSERT_EQ(then[0].size(), 1u);
  EXPECT_GT(then[0][0], warm[0][0]);
  EXPECT_TRUE(then[1].empty());
  EXPECT_EQ(kept, (std::vector<size_t>{1, 0}));
}

// Hardly anything is learned: what moves is the matrix whose rows are made orthonormal. Were it corrected by all
// workers at once, it would be thrown far beyond; were it corrected at every fourth step of one of three alone, the
// short run would end before it is done.
TEST_F(AsynchronousTest, ManyWorkersKeepRowsOrthonormalAsOneDoes) {
  TrainOptions options = SmallOptions();
  options.schedule.learning_rate = options.schedule.final_learning_rate = 1e-5;
  const auto train = [&](const std::string& run, const std::string& keys, int minibatch, int epochs) {
    options.data.minibatch = minibatch;
    options.schedule.epochs = epochs;
    TrainingTask task = Task(run, keys);
    task.network = Config::Parse(
        "[[layer]]\ntype = \"affine\"\ndim = 16\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"linear\"\n"
        "dim = 8\northonormal = true\n[[layer]]\ntype = \"affine\"\n",
        "n");
    const auto alone = comm::ProcessGroup::Alone();
    RunWorkers(task.parallel, Config(), 1, *alone,
               [&](comm::Communicator& comm) { Trainer(task, options, comm).Run(false); });
    nn::Model model = nn::Model::Load(ModelFile(task.folder));
    size_t linear = 0;
    while (model.network.layer_name(linear) != "linear1") ++linear;
    const ConstMatrixView w = model.network.layer(linear).parameters()[0]->value;
    // The length of a row, and how far the products of two are from those of orthonormal rows as long.
    double trace = 0, square = 0;
    for (int64_t i = 0; i < w.rows(); ++i) {
      for (int64_t j = 0; j < w.rows(); ++j) {
        double product = 0;
        for (int64_t c = 0; c < w.cols(); ++c) product += static_cast<double>(w(i, c)) * static_cast<double>(w(j, c));
        square += product * product;
        if (i == j) trace += product;
      }
    }
    const auto rows = static_cast<double>(w.rows());
    return std::pair(std::sqrt(trace / rows), square * rows / (trace * trace) - 1);
  };
  const auto [length, error] = train("one", "method = \"serial\"\n", 16, 3);
  EXPECT_LT(error, 1e-3);
  const std::string asgd =
      "method = \"asgd\"\nworld = \"simulated\"\nservers = 1\npush-every = 1\nmax-staleness = -1\n";
  // 67 minibatches ask for 17 corrections; 6 are too few. With a server of its own, no worker is faster than others.
  const auto [length_of_three, error_of_three] =
      train("three", asgd + "workers = 4\ndedicated-servers = true\n", 60, 1);
  EXPECT_LT(error_of_three, 1e-3);
  EXPECT_NEAR(length_of_three, length, 0.05 * length);
  const auto [length_of_many, error_of_many] = train("many", asgd + "workers = 16\n", 16, 3);
  EXPECT_LT(error_of_many, 1e-3);
  EXPECT_NEAR(length_of_many, length, 0.05 * length);
}

TEST_F(AsynchronousTest, SecondOrderTrainingLearns) {
  const auto summaries = Train("hf", 2, "method = \"hessian-free\"\ndamping = 1\n", false, 6);
  EXPECT_EQ(summaries[0].model_hash, summaries[1].model_hash);
  EXPECT_GT(summaries[0].held_out_accuracy, 0.6);
}

}  // namespace
}  // namespace antiphon::train
