// antiphon sweep: the same training with other values of some options, and which are best.
#include "pipeline/sweep.h"

#include <algorithm>
#include <filesystem>

#include "base/compute_threads.h"
#include "base/error.h"
#include "base/finally.h"
#include "base/log.h"
#include "command.h"
#include "processes.h"
#include "train/training_request.h"
#include "training_run.h"

namespace antiphon::app {
namespace {

// In a thread of its own, beside others: it says nothing but warnings, since lines do not tell which run they are of.
void TrainBesideOthers(const pipeline::TrainingJob& job, int threads) {
  if (job.supervise.any()) {
    throw UsageError("--at-once is for trainings in this process: leave out restarts and launch, or at-once");
  }
  const auto group = comm::ProcessGroup::Alone();
  train::RunTraining(pipeline::WithModelFiles(job.request),
                     {.group = *group, .threads = [threads] { return threads; }});
}

// Runs that failed are results; a sweep without any other has none.
void RequireAnyRun(const std::vector<report::SweptRun>& runs, const std::filesystem::path& out) {
  const auto failed = std::ranges::count(runs, report::SweptRun::State::kFailed, &report::SweptRun::state);
  if (failed == 0) return;
  if (failed < std::ssize(runs)) {
    log::Warn("{} of {} runs failed; '{}' has the reasons", failed, runs.size(), (out / "sweep.md").string());
    return;
  }
  Throw<InputError>("all {} runs failed, the first: {}; '{}' has the reasons", failed, runs.front().failure,
                    (out / "sweep.md").string());
}

void Sweep(pipeline::SweepRequest request, CommandContext& context) {
  if (Processes().num_processes() > 1) {
    throw UsageError(
        "a sweep is run by one process: instead of 'mpirun … antiphon sweep' give it --with launch='mpirun …'");
  }
  pipeline::TakeTables(context.config(), request);
  pipeline::SweepHost host{.threads = context.threads(),
                           .seed = context.seed(),
                           .seed_is_given = context.config().Has("seed"),
                           .train = {},
                           .say = {}};
  host.say = [&](const std::string& sentence) { context.PrintLine(sentence); };
  const auto level = log::Logger().level();
  const Finally restored([level] { log::Logger().set_level(level); });
  if (request.at_once > 1) {
    log::Logger().set_level(std::max(level, spdlog::level::warn));
    host.train = TrainBesideOthers;
  } else {
    host.train = [&](const pipeline::TrainingJob& job, int threads) {
      SetComputeThreads(threads);
      RunTrainingJob(job, context);
    };
  }
  const std::vector<report::SweptRun> runs = pipeline::Sweep(request, host);
  context.PrintLine(report::TextTable(runs));
  const std::filesystem::path out = request.out;
  if (!runs.empty() && runs[0].state == report::SweptRun::State::kFinished) {
    context.Print("the best: {}", (runs[0].folder / "config.toml").string());
  }
  context.Print("page: {}", (out / "sweep.html").string());
  context.SetResult(report::ToJson(runs));
  RequireAnyRun(runs, out);
}

}  // namespace

REGISTER_COMMAND(
    "sweep", pipeline::SweepRequest, Sweep,
    {.summary = "train with several values of some options, and find the best",
     .description =
         "The table `vary` names options of antiphon train and the values that each may take: "
         "\"log:0.01..1\" (drawn evenly in the logarithm), \"0..0.9\", \"int:1..8\", \"log-int:32..1024\", "
         "[128, 256] (one of these), \"0.1 * schedule.learning-rate\" (follows another one). A grid needs the number "
         "of points of a range: \"log:0.01..1/5\". However it was stopped, the same command continues it; with more "
         "runs, or another keep, it adds what is missing. Runs are sorted by held-out loss.",
     .example = "antiphon sweep --training exp/dnn/config.toml --out exp/sweep --runs 12 --stop-after 1,3 "
                "--set vary.schedule.learning-rate=log:0.05..5 --set 'vary.optimizer.momentum=[0, 0.5, 0.9]'\n"
                "antiphon sweep --training exp/dnn/config.toml --out exp/grid --search grid --at-once 2 "
                "--set vary.schedule.learning-rate=log:0.1..10/5 "
                "--set 'vary.schedule.final-learning-rate=0.1 * schedule.learning-rate'",
     .required = {"training", "out"},
     .tables = pipeline::kSweepTables});

}  // namespace antiphon::app
