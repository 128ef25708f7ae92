// A worker is lost at any of its messages of a whole training: in steps, exchanges, evaluations, votes, checkpoints,
// and while the result is written. The others end it, with everything whole that they leave behind.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <latch>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/compute_threads.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/log.h"
#include "nn/model.h"
#include "parallel/dying_rank.h"
#include "report/metrics.h"
#include "report/tensorboard.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"
#include "train/workers_request.h"

namespace antiphon::train {
namespace {

constexpr int kWorkers = 3;

// From when all ranks survive the loss of others on, it is lost itself instead of sending its message number
// `messages`.
class DiesGoingOn : public parallel::DiesSending {
 public:
  // `all_go_on` counts the ranks that do not survive losses yet.
  DiesGoingOn(comm::Communicator& whole, int messages, std::latch& all_go_on)
      : DiesSending(whole), messages_(messages), all_go_on_(all_go_on) {}
  // Who wants to go on asks for it.
  comm::LossTolerance* losses() override {
    if (messages_ >= 0) DieAfter(std::exchange(messages_, -1));
    if (!std::exchange(goes_on_, true)) all_go_on_.count_down();
    return DiesSending::losses();
  }
  void Send(int destination, int tag, std::span<const std::byte> bytes) override {
    // One that throws before then never comes: then its error counts.
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (goes_on_ && !all_go_on_.try_wait() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    sent_ += goes_on_ ? 1 : 0;
    DiesSending::Send(destination, tag, bytes);
  }
  /// Messages since then.
  int sent() const { return sent_; }

 private:
  int messages_;
  std::latch& all_go_on_;
  bool goes_on_ = false;
  int sent_ = 0;
};

struct LossCase {
  const char* name;
  const char* parallel;
  int dying;
  bool background;
  int first;     // message; the next ones follow at equal distances
  int deep = 0;  // so many hidden layers that nothing is learned, but much is sent
  bool in_rounds = false;
  friend std::ostream& operator<<(std::ostream& out, const LossCase& c) { return out << c.name; }
};

class LostInTraining : public ::testing::TestWithParam<LossCase> {
 protected:
  LostInTraining() : store_(MakeSyntheticStore(folder_ / "store")) {}

  TrainingTask Task(const std::string& run) const {
    TrainingTask task = SmallTask(store_, folder_ / run);
    task.parallel = Config::Parse(GetParam().parallel, "parallel");
    if (GetParam().deep == 0) return task;
    task.network = Config::Parse(
        fmt::format("[[layer]]\ntype = \"repeat\"\ntimes = {}\nlayers = [{{ type = \"affine\", dim = 4 }}, {{ type = "
                    "\"relu\" }}]\n[[layer]]\ntype = \"affine\"\n",
                    GetParam().deep),
        "network");
    return task;
  }
  static TrainOptions Options() {
    TrainOptions options = SmallOptions();
    if (GetParam().deep > 0) options.data.minibatch = 400;
    options.schedule.epochs = 2;
    options.average.share = 0.4;
    options.average.every_steps = 3;
    options.priors = PriorSource::kPosteriors;
    options.checkpoint.steps = 7;
    options.checkpoint.keep = 1;
    options.checkpoint.background = GetParam().background;
    options.deadline_seconds = 60;
    return options;
  }

  struct Outcome {
    bool lost = false;
    std::vector<TrainingSummary> told;  // by whoever is the first one in the end
  };
  Outcome Train(const std::string& run, int messages) const {
    Outcome outcome;
    std::mutex mutex;
    std::latch all_go_on(kWorkers);
    comm::RunLosableRanks(kWorkers, [&](comm::Communicator& whole) {
      SetComputeThreads(1);
      DiesGoingOn comm(whole, whole.rank() == GetParam().dying ? messages : -1, all_go_on);
      Trainer trainer(Task(run), Options(), comm);
      try {
        const TrainingSummary summary = trainer.Run(false);
        const std::lock_guard lock(mutex);
        if (trainer.is_first()) outcome.told.push_back(summary);
      } catch (const comm::RankLost&) {
        const std::lock_guard lock(mutex);
        outcome.lost = true;
        throw;
      }
    });
    return outcome;
  }

  // Returns how many workers were lost, as the run says.
  double ExpectWhole(const std::string& run, const Outcome& outcome) const {
    const auto records = report::ReadMetrics(folder_ / run / "metrics.jsonl");
    EXPECT_EQ(records.front().kind(), "start");
    const report::MetricsRecord& finish = records.back();
    EXPECT_EQ(finish.kind(), "finish");
    EXPECT_EQ(finish.Number("epochs"), 2);
    EXPECT_GT(finish.Number("held_out_accuracy"), GetParam().deep == 0 ? 0.55 : 0.0);
    ExpectFrames(records);
    const nn::Model model = nn::Model::Load(ModelFile(folder_ / run));
    EXPECT_EQ(fmt::format("{:016x}", model.network.Hash()), finish.Text("model_hash"));
    double priors = 0;
    for (const float p : model.log_priors) priors += std::exp(p);
    EXPECT_NEAR(priors, 1.0, 1e-4);
    // Nobody tells the result if rank 0 is lost when all is done, and the others have gone.
    const double lost = finish.Number("lost_workers").value_or(-1);
    if (outcome.told.empty()) {
      EXPECT_EQ(lost, 0);
    } else {
      EXPECT_EQ(outcome.told.back().model_hash, model.network.Hash());
      EXPECT_EQ(outcome.told.back().lost_workers, lost);
    }
    std::set<double> epochs;
    for (const report::MetricsRecord& record : records) {
      if (record.kind() == "epoch") epochs.insert(*record.Number("epoch"));
    }
    EXPECT_EQ(epochs, (std::set<double>{1, 2}));
    // Of those that are left, or of all.
    const auto sound = [&](int world) {
      return CheckpointFolder(CheckpointPath(folder_ / run), 0, world, 1).NewestSound(1 << 20).has_value();
    };
    EXPECT_TRUE(sound(kWorkers - 1) || sound(kWorkers)) << "no checkpoint to go on from";
    return lost;
  }

  // Each minibatch counts once, whoever learned it. What a worker that takes when it is free did since its round began
  // goes with it; so does what is given back behind the last step.
  static void ExpectFrames(const std::vector<report::MetricsRecord>& records) {
    const double all = 2 * records.front().Number("frames_per_epoch").value();
    double missing = 0;
    if (GetParam().in_rounds) missing = kWorkers * Options().checkpoint.steps * Options().data.minibatch;
    const auto lost_behind = [](const report::MetricsRecord& r) {
      return r.Text("what") == "loss" && r.Number("epoch") == 1 && r.Number("given_back").value() > 0;
    };
    if (!GetParam().in_rounds && records.size() > 3 && lost_behind(records[records.size() - 3])) {
      missing = records[records.size() - 3].Number("given_back").value() * Options().data.minibatch;
    }
    const double frames = records.back().Number("frames").value();
    EXPECT_GE(frames, all - missing);
    if (GetParam().in_rounds) return;  // where a push that came too late is made anew
    EXPECT_LE(frames, all);
  }

  ::antiphon::testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_;
};

TEST_P(LostInTraining, TheOthersEndItWholeWheneverThatIs) {
  const int kBetween = GetParam().deep > 0 ? 31 : 11;
  int losses = 0;
  for (int messages = GetParam().first;; messages += kBetween) {
    SCOPED_TRACE(fmt::format("message {}", messages));
    const std::string run = fmt::format("run-{}", messages);
    const Outcome outcome = Train(run, messages);
    if (!outcome.lost) break;
    losses += ExpectWhole(run, outcome) > 0 ? 1 : 0;
    if (HasFailure()) break;
  }
  EXPECT_GT(losses, 10);
}
INSTANTIATE_TEST_SUITE_P(
    Slow, LostInTraining,
    ::testing::Values(LossCase{"averaging", "method = \"averaging\"\nsync-period = 4\n", 2, true, 0},
                      LossCase{"averaging_of_the_first", "method = \"averaging\"\nsync-period = 4\n", 0, true, 3},
                      LossCase{"averaging_by_hand", "method = \"averaging\"\nsync-period = 4\n", 0, false, 6},
                      LossCase{"bmuf", "method = \"bmuf\"\nsync-period = 4\n", 1, false, 1},
                      LossCase{"easgd", "method = \"easgd\"\nsync-period = 4\n", 0, true, 2},
                      LossCase{"ssgd", "method = \"ssgd\"\n", 1, true, 4},
                      LossCase{"ssgd_deep", "method = \"ssgd\"\n", 2, true, 7, 40},
                      LossCase{"asgd", "method = \"asgd\"\nservers = 1\nstaleness-bound = 0\n", 2, true, 8, 0, true},
                      LossCase{"ssgd_of_the_first", "method = \"ssgd\"\n", 0, true, 5}),
    [](const auto& test) { return test.param.name; });

// What it had not exchanged yet comes back while the last epoch is evaluated: the epoch is not over then.
TEST(SlowLossInTheLastEvaluation, IsLearnedFromBeforeTheRunEnds) {
  const ::antiphon::testing::TemporaryFolder folder;
  const auto store = MakeSyntheticStore(folder / "store");
  const auto train = [&](int messages) {
    TrainingTask task = SmallTask(store, folder / std::to_string(messages));
    task.parallel = Config::Parse("method = \"easgd\"\nsync-period = 8\n", "parallel");  // does not divide an epoch
    TrainOptions options = SmallOptions();
    options.schedule.epochs = 1;
    options.deadline_seconds = 60;
    std::atomic<int> sent = 0;
    std::latch all_go_on(kWorkers);
    comm::RunLosableRanks(kWorkers, [&](comm::Communicator& whole) {
      SetComputeThreads(1);
      DiesGoingOn comm(whole, whole.rank() == 2 ? messages : -1, all_go_on);
      Trainer(task, options, comm).Run(false);
      if (whole.rank() == 2) sent = comm.sent();
    });
    return sent.load();
  };
  constexpr int kNever = 1 << 20;
  const auto records_of = [&](int messages) {
    return report::ReadMetrics(folder / std::to_string(messages) / "metrics.jsonl");
  };
  const int all = train(kNever);
  const double steps = records_of(kNever).back().Number("steps").value();
  int learned_again = 0;
  for (int messages = all - 50; messages < all; ++messages) {
    train(messages);
    const auto records = records_of(messages);
    const auto loss =
        std::find_if(records.begin(), records.end(), [](const auto& r) { return r.Text("what") == "loss"; });
    if (loss == records.end()) continue;
    const report::MetricsRecord& finish = records.back();
    const bool comes_back = loss->Number("given_back").value() > 0;
    if (comes_back && finish.Number("steps") == loss->Number("step")) continue;  // behind the evaluation
    EXPECT_EQ(finish.Number("frames"), records.front().Number("frames_per_epoch")) << messages;
    learned_again += comes_back && loss->Number("step") == steps ? 1 : 0;
  }
  // Agreements, sums of statistics and votes at the end of the steps, and of these two messages of the evaluation.
  EXPECT_GE(learned_again, 7);
}

// As a file server does that has not noticed that the machine of rank 0 is gone.
TEST(LockOfALostRank, IsWaitedForAndThenDoneWithout) {
  const ::antiphon::testing::TemporaryFolder folder;
  TrainingTask task = SmallTask(MakeSyntheticStore(folder / "store"), folder / "run");
  task.parallel = Config::Parse("method = \"averaging\"\nsync-period = 4\n", "parallel");
  TrainOptions options = SmallOptions();
  options.schedule.epochs = 1;
  options.deadline_seconds = 60;
  std::ostringstream text;
  log::SetLogger(std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  std::optional<FolderLock> kept;
  std::mutex mutex;
  int64_t lost_workers = 0;
  std::latch all_go_on(kWorkers);
  comm::RunLosableRanks(kWorkers, [&](comm::Communicator& whole) {
    SetComputeThreads(1);
    DiesGoingOn comm(whole, whole.rank() == 0 ? 20 : -1, all_go_on);
    Trainer trainer(task, options, comm);
    try {
      const TrainingSummary summary = trainer.Run(false);
      const std::lock_guard lock(mutex);
      if (trainer.is_first()) lost_workers = summary.lost_workers;
    } catch (const comm::RankLost&) {
      kept.emplace(task.folder, kTrainLock, "held by the test");
      throw;
    }
  });
  log::SetLogger(std::make_shared<spdlog::logger>("silent"));
  EXPECT_EQ(lost_workers, 1);
  EXPECT_NE(text.str().find("train.lock' is still held for the lost rank 0 after 5 s"), std::string::npos)
      << text.str();
  EXPECT_TRUE(std::filesystem::exists(ModelFile(task.folder)));
}

// As when its machine is lost between two halves of a write. Its frames are counted nevertheless.
TEST(LogOfALostRank, GoesOnBehindTheLastWholeRecords) {
  const ::antiphon::testing::TemporaryFolder folder;
  TrainingTask task = SmallTask(MakeSyntheticStore(folder / "store"), folder / "run");
  task.parallel = Config::Parse("method = \"averaging\"\nsync-period = 4\n", "parallel");
  TrainOptions options = SmallOptions();
  options.schedule.epochs = 2;
  options.log_steps = 2;
  options.deadline_seconds = 60;
  const auto metrics = task.folder / "metrics.jsonl", events = task.folder / report::TensorBoardWriter::kFileName;
  const auto append = [](const std::filesystem::path& file, std::string_view bytes) {
    std::ofstream(file, std::ios::binary | std::ios::app) << bytes;
  };
  std::string events_before;
  std::latch all_go_on(kWorkers);
  comm::RunLosableRanks(kWorkers, [&](comm::Communicator& whole) {
    SetComputeThreads(1);
    DiesGoingOn comm(whole, whole.rank() == 0 ? 60 : -1, all_go_on);
    try {
      Trainer(task, options, comm).Run(false);
    } catch (const comm::RankLost&) {
      append(metrics, "{\"kind\":\"st");
      events_before = ReadFile(events);
      append(events, events_before.substr(0, 20));
      throw;
    }
  });
  const auto records = report::ReadMetrics(metrics);
  std::vector<double> frames;
  for (const report::MetricsRecord& record : records) {
    if (record.kind() == "epoch") frames.push_back(record.Number("frames").value());
  }
  ASSERT_EQ(frames.size(), 2U);
  const double of_an_epoch = records.front().Number("frames_per_epoch").value();
  EXPECT_EQ(frames[0], of_an_epoch);
  EXPECT_EQ(frames[1], 2 * of_an_epoch);
  // TensorBoard gets what the new first worker has to tell.
  const std::string told = ReadFile(events);
  EXPECT_EQ(report::BytesOfWholeEvents(events), told.size());
  EXPECT_TRUE(told.starts_with(events_before));
  EXPECT_EQ(events_before.find("loss/held_out"), std::string::npos) << "lost too late for this test";
  EXPECT_NE(events_before.find("loss/train"), std::string::npos) << "lost too early for this test";
  int epochs = 0;
  for (size_t at = 0; (at = told.find("loss/held_out", at)) != std::string::npos; ++at) ++epochs;
  EXPECT_EQ(epochs, 2);
}

}  // namespace
}  // namespace antiphon::train
