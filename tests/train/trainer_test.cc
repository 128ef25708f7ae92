#include "train/trainer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <regex>
#include <set>

#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/file.h"
#include "data/feature_extraction.h"
#include "nn/layer.h"
#include "report/metrics.h"
#include "train/evaluate.h"
#include "train/mischief.h"

namespace antiphon::train {
namespace {

namespace fs = std::filesystem;

// Passes its input on; spoils it when told to.
class MischiefLayer : public nn::Layer {
 public:
  explicit MischiefLayer(const nn::LayerArgs& args) : Layer(args.in_dim, args.in_dim) {}
  Config ToConfig() const override { return Config(); }

 protected:
  void DoForward(const nn::ExecContext& ctx, ConstMatrixView x, MatrixView y, nn::Workspace&) const override {
    for (int64_t r = 0; r < x.rows(); ++r) std::copy(x.Row(r).begin(), x.Row(r).end(), y.Row(r).begin());
    ++Mischief::calls;
    if (Mischief::calls == Mischief::cancel_at_call) RequestCancel();
    if (Mischief::calls == Mischief::kill_at_call) ::raise(SIGKILL);
    if (!ctx.training) return;
    if (ctx.step == Mischief::nan_at_step && Mischief::times > 0) {
      --Mischief::times;
      y(0, 0) = std::nanf("");
    }
    if (ctx.step == Mischief::cancel_at_step) RequestCancel();
    if (ctx.step == Mischief::kill_at_step) ::raise(SIGKILL);
  }
  void DoBackward(const nn::ExecContext&, ConstMatrixView dy, nn::Workspace&, MatrixView dx,
                  nn::GradientSink&) override {
    if (dx.data() == nullptr) return;
    for (int64_t r = 0; r < dy.rows(); ++r) std::copy(dy.Row(r).begin(), dy.Row(r).end(), dx.Row(r).begin());
  }
};
REGISTER_COMPONENT(nn::LayerRegistry, "mischief",
                   [](const nn::LayerArgs& args) { return std::make_unique<MischiefLayer>(args); });

TEST_F(TrainerTest, AStopWithoutAWayToGoOnPromisesNone) {
  Mischief::cancel_at_step = 3;
  try {
    TrainHere(Task("part"), SmallOptions());
    FAIL() << "expected Cancelled";
  } catch (const Cancelled& e) {
    EXPECT_NE(std::string(e.what()).find("begins anew"), std::string::npos) << e.what();
    EXPECT_EQ(std::string(e.what()).find("saved"), std::string::npos) << e.what();
  }
}

TEST_F(TrainerTest, LearnsAndLeavesModelMetricsAndReport) {
  const TrainingSummary summary = TrainHere(Task("run"), SmallOptions());
  EXPECT_GT(summary.held_out_accuracy, 0.6);
  EXPECT_EQ(summary.epochs, 3);
  const nn::Model model = nn::Model::Load(ModelFile(folder_ / "run"));
  EXPECT_EQ(model.network.Hash(), summary.model_hash);
  double priors = 0;
  for (const float p : model.log_priors) priors += std::exp(p);
  EXPECT_NEAR(priors, 1.0, 1e-5);
  const auto records = report::ReadMetrics(folder_ / "run/metrics.jsonl");
  EXPECT_EQ(records.front().kind(), "start");
  EXPECT_EQ(records.back().kind(), "finish");
  EXPECT_LT(*records.back().Number("held_out_loss"), *records.front().Number("held_out_loss"));
  const std::string html = ReadFile(folder_ / "run/report.html");
  EXPECT_FALSE(std::regex_search(html, std::regex("(src|href)\\s*=|https?:", std::regex::icase)));
}

// A whole minibatch and a short one go as far as all their quarters, one after the other, at a quarter of the rate, as
// long as the steps are small.
TEST_F(TrainerTest, FramesOfAShortMinibatchCountAlike) {
  const auto store = MakeSyntheticStore(folder_ / "few", {.utterances_per_speaker = 1, .frames = 16});
  const auto values = [&](int minibatch, double rate, int workers) {
    TrainOptions options = SmallOptions();
    options.data.minibatch = minibatch;
    options.schedule.learning_rate = options.schedule.final_learning_rate = rate;
    options.schedule.epochs = 1;
    const std::string run = fmt::format("{}-{}-{}", minibatch, rate, workers);
    TrainingTask task = SmallTask(store, folder_ / run);
    task.network = Config::Parse("[[layer]]\ntype = \"affine\"\n", "network");
    task.optimizer = Config::Parse("type = \"sgd\"\n", "optimizer");
    task.parallel = Config::Parse("method = \"ssgd\"\nrate-scaling = \"none\"\n", "parallel");
    comm::RunRanks(workers, [&](comm::Communicator& comm) { Trainer(task, options, comm).Run(false); });
    const nn::Model model = nn::Model::Load(ModelFile(folder_ / run));
    return std::vector<float>(model.network.values().begin(), model.network.values().end());
  };
  const auto distance = [](const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return std::sqrt(sum);
  };
  const std::vector<float> begin = values(64, 1e-12, 1);
  const std::vector<float> quarters = values(16, 1e-3, 1);
  const double way = distance(begin, quarters);
  EXPECT_GT(way, 1e-4);
  EXPECT_LT(distance(quarters, values(64, 4e-3, 1)), 0.02 * way);
  // Two workers, the second of which has nothing in the last step.
  EXPECT_LT(distance(quarters, values(32, 4e-3, 2)), 0.02 * way);
}

TEST_F(TrainerTest, TwoRunsGiveTheSameBits) {
  TrainHere(Task("a"), SmallOptions());
  TrainHere(Task("b"), SmallOptions());
  EXPECT_EQ(ModelBytes("a"), ModelBytes("b"));
  EXPECT_EQ(TimelessMetrics(folder_ / "a"), TimelessMetrics(folder_ / "b"));
}

TEST_F(TrainerTest, AnotherSeedGivesAnotherModel) {
  TrainingTask task = Task("b");
  task.seed = 2;
  EXPECT_NE(TrainHere(Task("a"), SmallOptions()).model_hash, TrainHere(task, SmallOptions()).model_hash);
}

struct ResumeCase {
  const char* name;
  const char* schedule;
  const char* optimizer;
  double average;
};
class ResumeTest : public TrainerTest, public ::testing::WithParamInterface<ResumeCase> {
 protected:
  TrainOptions Options() {
    TrainOptions options = SmallOptions();
    options.schedule.type = ParseEnum(GetParam().schedule, optim::kScheduleTypes);
    options.average.share = GetParam().average;
    options.average.every_steps = 3;
    options.checkpoint.steps = 20;
    return options;
  }
  TrainingTask Task(const std::string& run) {
    TrainingTask task = TrainerTest::Task(run);
    task.optimizer = Config::Parse(GetParam().optimizer, "optimizer");
    return task;
  }
};
INSTANTIATE_TEST_SUITE_P(Methods, ResumeTest,
                         ::testing::Values(ResumeCase{"exponential", "exponential", "type = \"sgd\"\nmomentum = 0.5",
                                                      0.4},
                                           ResumeCase{"newbob", "newbob", "type = \"sgd\"", 0},
                                           ResumeCase{"adam", "constant", "type = \"adam\"", 0.2}),
                         [](const auto& test) { return test.param.name; });

TEST_P(ResumeTest, AfterAStopOnRequestIsBitIdentical) {
  TrainHere(Task("whole"), Options());
  Mischief::cancel_at_step = 75;
  TrainingTask stopped = Task("stopped");
  stopped.resume_hint = "say resume";
  try {
    TrainHere(std::move(stopped), Options());
    FAIL() << "expected Cancelled";
  } catch (const Cancelled& e) {
    EXPECT_NE(std::string(e.what()).find("everything is saved. To go on: say resume"), std::string::npos) << e.what();
  }
  EXPECT_FALSE(fs::exists(ModelFile(folder_ / "stopped")));
  Mischief::Reset();
  TrainHere(Task("stopped"), Options(), true);
  EXPECT_EQ(ModelBytes("whole"), ModelBytes("stopped"));
  EXPECT_EQ(TimelessMetrics(folder_ / "whole"), TimelessMetrics(folder_ / "stopped"));
}

TEST_P(ResumeTest, AfterKillMinusNineAtAnyStepIsBitIdentical) {
  TrainHere(Task("whole"), Options());
  Rng rng(GetParam().average > 0.3 ? 1 : 2);
  for (int attempt = 0; attempt < 3; ++attempt) {
    // The child dies once at a random step of what is left, before, in or after an epoch's end.
    const auto kill_at = static_cast<int64_t>(rng.Below(45)) + 45 * attempt;
    std::fflush(nullptr);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Mischief::kill_at_step = kill_at;
      SetComputeThreads(1);
      try {
        TrainHere(Task("killed"), Options(), attempt > 0);
      } catch (...) {
        ::_exit(3);
      }
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "step " << kill_at << " status " << status;
  }
  TrainHere(Task("killed"), Options(), true);
  EXPECT_EQ(ModelBytes("whole"), ModelBytes("killed"));
  EXPECT_EQ(TimelessMetrics(folder_ / "whole"), TimelessMetrics(folder_ / "killed"));
}

// Two workers, of which one writes what is common in the background while both go on: killed wherever that stands.
TEST_F(TrainerTest, KilledAtAnyMomentOfWritingCheckpointsGoesOnBitIdentically) {
  TrainOptions options = SmallOptions();
  options.checkpoint.steps = 1;
  options.schedule.epochs = 3;
  const auto run = [&](const std::string& name, bool resume) {
    TrainingTask task = SmallTask(store_, folder_ / name);
    task.parallel = Config::Parse("method = 'ssgd'\n", "parallel");
    comm::RunRanks(2, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      Trainer(task, options, comm).Run(resume);
    });
  };
  run("whole", false);
  int killed = 0;
  for (int round = 0; round < 12; ++round) {
    const fs::path checkpoints = CheckpointPath(folder_ / "killed");
    const auto newest = [&] {
      fs::path last;
      std::error_code none;
      for (const auto& entry : fs::directory_iterator(checkpoints, none)) last = std::max(last, entry.path());
      return last;
    };
    const fs::path before = newest();
    std::fflush(nullptr);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        run("killed", round > 0);
      } catch (...) {
        ::_exit(3);
      }
      ::_exit(0);
    }
    // Once it has come further than the last one, and a little later each time.
    int status = 0;
    pid_t ended = 0;
    while (newest() == before && (ended = ::waitpid(child, &status, WNOHANG)) == 0) {
    }
    for (int i = 0; i < 3000 * round; ++i) ::getppid();
    if (ended == 0) {
      ASSERT_EQ(::kill(child, SIGKILL), 0);
      ASSERT_EQ(::waitpid(child, &status, 0), child);
    }
    if (WIFSIGNALED(status)) {
      ++killed;
    } else {
      ASSERT_EQ(status, 0) << "round " << round;
    }
  }
  EXPECT_GE(killed, 6);
  run("killed", true);
  EXPECT_EQ(ModelBytes("whole"), ModelBytes("killed"));
}

TEST_F(TrainerTest, ResumePassesOverADamagedCheckpoint) {
  TrainOptions options = SmallOptions();
  options.checkpoint.steps = 10;
  Mischief::cancel_at_step = 45;
  EXPECT_THROW(TrainHere(Task("run"), options), Cancelled);
  Mischief::Reset();
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(CheckpointPath(folder_ / "run"))) {
    newest = std::max(newest, entry.path());
  }
  std::string bytes = ReadFile(newest);
  bytes[bytes.size() / 2] ^= 1;
  WriteFileAtomically(newest, bytes);
  TrainHere(Task("run"), options, true);
  TrainHere(Task("whole"), options);
  EXPECT_EQ(ModelBytes("run"), ModelBytes("whole"));
}

TEST_F(TrainerTest, RefusesToResumeAnotherExperimentNamingTheDifference) {
  TrainHere(Task("run"), SmallOptions());
  TrainOptions other = SmallOptions();
  other.schedule.learning_rate = 0.25;
  try {
    TrainHere(Task("run"), other, true);
    FAIL() << "expected InputError";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("learning-rate = 0.5"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("learning-rate = 0.25"), std::string::npos) << e.what();
  }
  TrainingTask task = Task("run");
  task.anew_if_changed = true;
  TrainHere(task, other, true);
  TrainHere(Task("fresh"), other);
  EXPECT_EQ(ModelBytes("run"), ModelBytes("fresh"));
}

TEST_F(TrainerTest, ResumingAFinishedRunGivesTheSameModelAgain) {
  TrainHere(Task("run"), SmallOptions());
  const std::string before = ModelBytes("run");
  fs::remove(ModelFile(folder_ / "run"));
  TrainHere(Task("run"), SmallOptions(), true);
  EXPECT_EQ(ModelBytes("run"), before);
}

TEST_F(TrainerTest, ANonFiniteLossBringsBackTheLastGoodModelWithLowerRates) {
  TrainOptions options = SmallOptions();
  options.schedule.type = optim::ScheduleType::kConstant;
  options.checkpoint.steps = 20;
  Mischief::nan_at_step = 45;
  Mischief::times = 1;
  const TrainingSummary summary = TrainHere(Task("run"), options);
  EXPECT_GT(summary.held_out_accuracy, 0.6);
  double last_rate = 0;
  int fallbacks = 0;
  for (const auto& record : report::ReadMetrics(folder_ / "run/metrics.jsonl")) {
    if (record.kind() == "epoch") last_rate = *record.Number("learning_rate");
    if (record.Text("what") != "fallback") continue;
    ++fallbacks;
    EXPECT_EQ(*record.Number("step"), 40) << "the newest checkpoint before step 45";
  }
  EXPECT_EQ(fallbacks, 1);
  EXPECT_DOUBLE_EQ(last_rate, 0.25);
}

TEST_F(TrainerTest, GivesUpWithAdviceWhenItDivergesAgainAndAgain) {
  TrainOptions options = SmallOptions();
  options.guard.max_fallbacks = 2;
  Mischief::nan_at_step = 20;
  Mischief::times = 1000;
  try {
    TrainHere(Task("run"), options);
    FAIL() << "expected DivergenceError";
  } catch (const DivergenceError& e) {
    EXPECT_NE(std::string(e.what()).find("learning-rate"), std::string::npos) << e.what();
  }
  EXPECT_EQ(Mischief::times, 1000 - 3);
}

TEST_F(TrainerTest, AnExplodingRunIsCaughtByItsLoss) {
  TrainOptions options = SmallOptions();
  options.schedule.type = optim::ScheduleType::kConstant;
  options.schedule.learning_rate = 1e4;
  options.guard.max_fallbacks = 1;
  options.guard.rate_factor = 0.9;
  TrainingTask task = Task("run");
  task.network = Config::Parse(
      "[[layer]]\ntype = \"affine\"\ndim = 24\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\n", "n");
  EXPECT_THROW(TrainHere(task, options), DivergenceError);
}

TEST_F(TrainerTest, OverfitsRandomLabels) {
  SyntheticData d;
  d.speakers = 2;
  d.utterances_per_speaker = 2;
  d.frames = 50;
  d.noise = 50;  // nothing but noise: the labels are random
  TrainingTask task = SmallTask(MakeSyntheticStore(folder_ / "noise", d), folder_ / "run");
  task.held_out_store = task.store;
  task.network = Config::Parse(
      "[[layer]]\ntype = \"affine\"\ndim = 200\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\n", "n");
  TrainOptions options = SmallOptions();
  options.data.minibatch = 50;
  options.data.left_context = options.data.right_context = 5;
  options.schedule.epochs = 60;
  EXPECT_GT(TrainHere(task, options).held_out_accuracy, 0.99);
}

TEST_F(TrainerTest, AFullDiskOrAReadOnlyFolderLosesNothing) {
  if (::geteuid() == 0) {
    // Rights do not stop root: a file where the checkpoint folder should be does.
    WriteFileAtomically(folder_ / "run/checkpoint", "in the way");
    EXPECT_THROW(TrainHere(Task("run"), SmallOptions()), IoError);
    EXPECT_EQ(ReadFile(folder_ / "run/checkpoint"), "in the way");
    return;
  }
  Mischief::cancel_at_step = 45;
  EXPECT_THROW(TrainHere(Task("run"), SmallOptions()), Cancelled);
  Mischief::Reset();
  ::chmod(CheckpointPath(folder_ / "run").c_str(), 0500);
  EXPECT_THROW(TrainHere(Task("run"), SmallOptions(), true), IoError);
  ::chmod(CheckpointPath(folder_ / "run").c_str(), 0700);
  TrainHere(Task("run"), SmallOptions(), true);
  TrainHere(Task("whole"), SmallOptions());
  EXPECT_EQ(ModelBytes("run"), ModelBytes("whole"));
}

TEST_F(TrainerTest, HeldOutSpeakersAreNeverTrainedOn) {
  const DataSplit split = SplitHeldOut(*store_, 0.3, 3);
  std::set<int32_t> train, held_out;
  for (const size_t u : split.train) train.insert(store_->utterances()[u].speaker);
  for (const size_t u : split.held_out) held_out.insert(store_->utterances()[u].speaker);
  EXPECT_FALSE(train.empty());
  EXPECT_FALSE(held_out.empty());
  for (const int32_t speaker : held_out) EXPECT_FALSE(train.contains(speaker));
  EXPECT_EQ(split.train.size() + split.held_out.size(), store_->utterances().size());
}

TEST_F(TrainerTest, CopiesOfHeldOutUtterancesAreNeverTrainedOn) {
  data::FrameStoreWriter writer(folder_ / "copies", 2, 2);
  for (const char* name : {"u1", "u2", "u3", "u4", "sp0.9-u1", "sp0.9-u2", "sp1.1-u3", "aug2-u4", "spa-1"}) {
    writer.Add(name, std::string(data::OriginalName(name)) == name ? "s" : "sp0.9-s", Matrix(5, 2),
               std::vector<int32_t>(5, 1));
  }
  writer.Finish();
  const data::FrameStore store(folder_ / "copies");
  for (const bool by_speaker : {false, true}) {
    const DataSplit split = SplitHeldOut(store, 0.4, 3, by_speaker);
    EXPECT_FALSE(split.by_speaker) << "the copies' speaker is no other speaker";
    std::set<std::string_view> train;
    for (const size_t u : split.train) train.insert(data::OriginalName(store.utterances()[u].utt_id));
    for (const size_t u : split.held_out) {
      EXPECT_FALSE(train.contains(data::OriginalName(store.utterances()[u].utt_id)));
    }
    EXPECT_GT(split.held_out.size(), 1U);
  }
}

}  // namespace
}  // namespace antiphon::train
