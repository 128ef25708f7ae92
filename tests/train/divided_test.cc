// Models that several ranks hold together: memory, the file of the whole, checkpoints of parts, refused plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include "base/cancel.h"
#include "base/compute_threads.h"
#include "math/safetensors.h"
#include "nn/model.h"
#include "sanitized.h"
#include "temporary_folder.h"
#include "train/memory_need.h"
#include "train/synthetic_task.h"

namespace antiphon::train {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

// 4.3 million weights: 17 MB, and as much again for momentum.
constexpr char kWideNetwork[] =
    "[[layer]]\ntype = \"affine\"\ndim = 2048\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\ndim = 2048\n"
    "[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\n";
constexpr double kWideMb = 4.0 * (2048 * (18 + 1) + 2048 * 2049 + 8 * 2049) / 1e6;

class DividedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ResetCancel();
    SetComputeThreads(1);
    store_ = MakeSyntheticStore(folder_ / "store");
  }
  void TearDown() override { ResetCancel(); }

  TrainingTask Task(const std::string& run, const std::string& parallel) {
    TrainingTask task = SmallTask(store_, folder_ / run);
    task.parallel = Config::Parse(parallel, "parallel");
    return task;
  }
  static std::vector<TrainingSummary> Train(const TrainingTask& task, int workers, const TrainOptions& options,
                                            bool resume = false) {
    std::vector<TrainingSummary> summaries(static_cast<size_t>(workers));
    comm::RunRanks(workers, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      comm.set_deadline_seconds(60);
      summaries[static_cast<size_t>(comm.rank())] = Trainer(task, options, comm).Run(resume);
    });
    return summaries;
  }
  // So small a rate that no weight moves: what is left is what was drawn.
  static TrainOptions Untrained() {
    TrainOptions options = SmallOptions();
    options.schedule.type = optim::ScheduleType::kConstant;
    options.schedule.learning_rate = 1e-30;
    options.schedule.epochs = 1;
    return options;
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_;
};

// Batch normalisation, means of posteriors and dropout included.
TEST_F(DividedTest, BeginsAndEvaluatesAsTheWholeDoes) {
  TrainOptions options = Untrained();
  options.priors = PriorSource::kPosteriors;
  const TrainingTask serial_task = Task("serial", "method = \"serial\"\n");
  const TrainingSummary serial = Train(serial_task, 1, options)[0];
  const nn::Model whole = nn::Model::Load(ModelFile(serial_task.folder));
  for (const std::string parallel :
       {"method = \"model-parallel\"\n", "method = \"pipeline\"\n", "method = \"pipeline\"\noutput-stripes = 2\n",
        "method = \"model-parallel\"\nstripes = 2\n"}) {
    SCOPED_TRACE(parallel);
    const int workers = parallel.find("= 2") != std::string::npos ? 4 : 3;
    fs::remove_all(folder_ / "run");
    const TrainingTask task = Task("run", parallel);
    const auto summaries = Train(task, parallel.find("output") != std::string::npos ? 3 : workers, options);
    for (const TrainingSummary& summary : summaries) {
      EXPECT_EQ(summary.model_hash, summaries[0].model_hash);
      EXPECT_NEAR(summary.held_out_loss, serial.held_out_loss, 1e-5);
    }
    const nn::Model divided = nn::Model::Load(ModelFile(task.folder));
    EXPECT_EQ(divided.network.Hash(), summaries[0].model_hash);
    ASSERT_EQ(divided.network.num_values(), whole.network.num_values());
    // Biases begin at 0, where even that rate shows.
    float largest = 0;
    for (size_t i = 0; i < whole.network.num_values(); ++i) {
      largest = std::max(largest, std::abs(divided.network.values()[i] - whole.network.values()[i]));
    }
    EXPECT_LT(largest, 1e-25f) << "other initial weights";
    ASSERT_EQ(divided.log_priors.size(), whole.log_priors.size());
    for (size_t i = 0; i < whole.log_priors.size(); ++i) {
      EXPECT_NEAR(divided.log_priors[i], whole.log_priors[i], 1e-4);
    }
  }
}

// Layers that a file holds in few bits or without what a mask leaves out.
TEST_F(DividedTest, WritesRoundedAndMaskedLayersAsTheWholeDoes) {
  const auto train = [&](const std::string& run, const std::string& parallel, int workers) {
    TrainingTask task = Task(run, parallel);
    task.network = Config::Parse(
        "[[layer]]\ntype = \"quantized-affine\"\ndim = 24\n[[layer]]\ntype = \"relu\"\n"
        "[[layer]]\ntype = \"sparse-affine\"\ndim = 24\nblock-rows = 2\n[[layer]]\ntype = \"relu\"\n"
        "[[layer]]\ntype = \"binary-affine\"\ndim = 24\n[[layer]]\ntype = \"affine\"\n",
        "network");
    Train(task, workers, Untrained());
    return nn::Model::Load(ModelFile(task.folder));
  };
  const nn::Model whole = train("serial", "method = \"serial\"\n", 1);
  for (const std::string method : {"model-parallel", "pipeline"}) {
    SCOPED_TRACE(method);
    const nn::Model divided = train(method, "method = \"" + method + "\"\n", 3);
    ASSERT_EQ(divided.network.num_values(), whole.network.num_values());
    for (size_t i = 0; i < whole.network.num_values(); ++i) {
      ASSERT_NEAR(divided.network.values()[i], whole.network.values()[i], 1e-25f) << i;
    }
  }
}

TEST_F(DividedTest, GoesOnFromAWholeInitialModel) {
  TrainingTask first = Task("first", "method = \"serial\"\n");
  first.seed += 1;
  Train(first, 1, Untrained());
  const auto initial = std::make_shared<const nn::Model>(nn::Model::Load(ModelFile(first.folder)));
  for (const std::string parallel :
       {"method = \"serial\"\n", "method = \"model-parallel\"\n", "method = \"pipeline\"\n"}) {
    SCOPED_TRACE(parallel);
    fs::remove_all(folder_ / "run");
    TrainingTask task = Task("run", parallel);
    task.initial = initial;
    Train(task, parallel.find("serial") != std::string::npos ? 1 : 3, Untrained());
    const nn::Model further = nn::Model::Load(ModelFile(task.folder));
    ASSERT_EQ(further.network.num_values(), initial->network.num_values());
    float largest = 0;
    for (size_t i = 0; i < further.network.num_values(); ++i) {
      largest = std::max(largest, std::abs(further.network.values()[i] - initial->network.values()[i]));
    }
    EXPECT_LT(largest, 1e-25f);
    EXPECT_EQ(further.network.ToToml(), initial->network.ToToml());
  }
}

TEST_F(DividedTest, APlanThatDoesNotFitIsRefusedWithTheFigure) {
  TrainOptions options = Untrained();
  const auto refusal = [&](const std::string& parallel, int workers) -> std::string {
    TrainingTask task = Task("run", parallel);
    task.network = Config::Parse(kWideNetwork, "network");
    try {
      Train(task, workers, options);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  const std::string limit = "device-memory-mb = 25\n";
  const std::string whole = refusal("method = \"serial\"\n" + limit, 1);
  EXPECT_THAT(whole, HasSubstr("device-memory-mb is 25"));
  EXPECT_THAT(whole, HasSubstr("worker 0 of 1 needs 36."));
  EXPECT_THAT(whole, HasSubstr("weights 17.0, optimiser 17.0"));
  EXPECT_THAT(refusal("method = \"ssgd\"\n" + limit, 2), HasSubstr("worker 0 of 2"));
  EXPECT_EQ(refusal("method = \"model-parallel\"\n" + limit, 2), "");
  // Before anything is made.
  EXPECT_THAT(refusal("method = \"serial\"\ndevice-memory-mb = 10\n", 1), HasSubstr("optimiser 0.0"));
}

// What a method keeps beside the weights counts: gradients and another worker's widest one, models and momentum of
// blocks, what codecs have not sent of gradients and of their sums.
TEST_F(DividedTest, ThereHasToBeRoomForWhatMethodsAndCodecsKeep) {
  const auto few_frames = MakeSyntheticStore(folder_ / "few", {.utterances_per_speaker = 2, .frames = 50});
  const auto refusal = [&](const std::string& method, double models) -> std::string {
    TrainingTask task = Task("run", method + "device-memory-mb = " + std::to_string(models * kWideMb) + "\n");
    fs::remove_all(task.folder);
    task.store = few_frames;
    task.network = Config::Parse(kWideNetwork, "network");
    try {
      Train(task, 2, Untrained());
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  // Weights and momentum are two models, activations less than a quarter of one.
  const std::string summed = "method = \"ssgd\"\n";
  EXPECT_EQ(refusal(summed, 4.3), "");
  EXPECT_THAT(refusal(summed, 3.9), HasSubstr("copies 33."));
  EXPECT_THAT(refusal(summed + "codec = {type = \"one-bit\"}\n", 4.3), HasSubstr("copies 67."));
  EXPECT_THAT(refusal("method = \"bmuf\"\nsync-period = 2\n", 4.3), HasSubstr("copies 85."));
}

// The network of the published figures for training on graphics cards: 462–5×2048–10217.
TEST(WeightBytes, AreThoseOfThePublishedNetwork) {
  nn::Network outline(
      Config::Parse("[[layer]]\ntype = \"repeat\"\ntimes = 5\nlayers = [{type = \"affine\", dim = 2048}, "
                    "{type = \"sigmoid\"}]\n[[layer]]\ntype = \"affine\"\n",
                    "network"),
      462, 10217, 0, nn::InitialValues::kOutline);
  constexpr size_t kParameters = 462 * 2048 + 4 * 2048 * 2048 + 2048 * 10217 + 5 * 2048 + 10217;
  EXPECT_EQ(WeightBytes(outline, {}), sizeof(float) * kParameters);
}

// MB of the largest resident set of a process that trains the wide network with so many ranks.
double PeakMb(const std::function<void()>& train) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    // What is freed goes back at once, so that the peak is that of what is held.
    ::mallopt(M_MMAP_THRESHOLD, 1 << 18);
    try {
      train();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      ::_exit(3);
    }
    ::_exit(0);
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

// The ranks are threads of one process. Should all of them hold the whole at any time, be it while it is made, or one
// of them while training or saving, then they would exceed what they may: weights, momentum and gradients once,
// activations and pieces under way.
TEST_F(DividedTest, AllRanksTogetherHoldTheModelOnce) {
  if (antiphon::testing::kSanitized) GTEST_SKIP() << "a sanitizer's own memory is not ours";
  constexpr int kRanks = 8;
  TrainOptions options = SmallOptions();
  options.schedule.epochs = 1;
  options.checkpoint.steps = 5;
  options.data.minibatch = 32;
  const auto few_frames = MakeSyntheticStore(folder_ / "few", {.utterances_per_speaker = 2, .frames = 50});
  const auto peak = [&](const std::string& run, const std::string& method, bool wide) {
    TrainingTask task = Task(run, "method = \"" + method + "\"\n");
    task.store = few_frames;
    if (wide) task.network = Config::Parse(kWideNetwork, "network");
    return PeakMb([&] { Train(task, kRanks, options); });
  };
  const double threads = peak("threads", "model-parallel", false);
  const double striped = peak("striped", "model-parallel", true) - threads;
  const double replicas = peak("replicas", "ssgd", true) - threads;
  RecordProperty("striped_mb", std::to_string(striped));
  RecordProperty("replicas_mb", std::to_string(replicas));
  EXPECT_LT(striped, 4.8 * kWideMb);
  EXPECT_GT(replicas, 2 * kRanks * kWideMb) << "the measure does not see what it should";
}

// Weights, the optimiser's two and three averages are 6 models, and so is their copy.
TEST_F(DividedTest, ACheckpointIsCopiedOnlyWhereTheCopyHasRoom) {
  if (antiphon::testing::kSanitized) GTEST_SKIP() << "a sanitizer's own memory is not ours";
  TrainOptions options = SmallOptions();
  options.schedule.epochs = 1;
  options.schedule.learning_rate = options.schedule.final_learning_rate = 0.001;
  options.data.minibatch = 32;
  options.average = {.share = 0.9, .halvings = 2, .every_steps = 1};
  const auto few_frames = MakeSyntheticStore(folder_ / "few", {.utterances_per_speaker = 2, .frames = 50});
  const auto peak = [&](const std::string& limit) {
    TrainingTask task = Task(limit, "method = \"serial\"\ndevice-memory-mb = " + limit + "\n");
    task.store = few_frames;
    task.network = Config::Parse(kWideNetwork, "network");
    task.optimizer = Config::Parse("type = \"adam\"\n", "optimizer");
    return PeakMb([&] { Train(task, 1, options); });
  };
  const double roomy = peak("230");
  const double tight = peak("180");
  EXPECT_GT(roomy - tight, 2 * kWideMb);
}

TEST_F(DividedTest, ACheckpointHoldsARanksPartAndAnotherNumberGoesOn) {
  TrainOptions options = SmallOptions();
  for (const std::string method : {"model-parallel", "pipeline"}) {
    SCOPED_TRACE(method);
    TrainingTask task = Task(method, "method = \"" + method + "\"\n");
    task.network = Config::Parse(
        "[[layer]]\ntype = \"affine\"\ndim = 64\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\ndim = 64\n"
        "[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\n",
        "network");
    options.schedule.epochs = 2;
    Train(task, 2, options);
    std::map<std::string, int64_t> held;
    for (const auto& entry : fs::directory_iterator(CheckpointPath(task.folder))) {
      const SafetensorsReader reader(entry.path());
      for (const std::string& name : reader.Names()) {
        if (name.starts_with("network.")) held[name] += reader.ReadMatrix(name).size();
      }
    }
    const nn::Model model = nn::Model::Load(ModelFile(task.folder));
    const auto files = std::distance(fs::directory_iterator(CheckpointPath(task.folder)), fs::directory_iterator()) / 2;
    for (const nn::Parameter* p : model.network.parameters()) {
      EXPECT_EQ(held["network." + p->name], files * p->value.size()) << p->name;
    }
    // The run is over; another number of ranks writes the same model from those parts.
    const uint64_t before = model.network.Hash();
    for (const int workers : {3, 1}) {
      const TrainingSummary again = Train(task, workers, options, true)[0];
      EXPECT_EQ(again.model_hash, before) << workers;
    }
  }
}

}  // namespace
}  // namespace antiphon::train
