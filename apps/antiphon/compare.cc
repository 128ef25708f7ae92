// antiphon compare: the same training by several methods and numbers of workers, side by side; with word error rates,
// if it is told how to recognise.
#include "pipeline/compare.h"

#include <filesystem>

#include "base/compute_threads.h"
#include "command.h"
#include "processes.h"
#include "training_run.h"

namespace antiphon::app {
namespace {

void Compare(pipeline::CompareRequest request, CommandContext& context) {
  pipeline::TakeTables(context.config(), request);
  const auto train = [&](const pipeline::TrainingJob& job) {
    SetComputeThreads(context.threads());
    RunTrainingJob(job, context);
  };
  const report::Comparison comparison = pipeline::Compare(request, {.stage = HostOf(context), .train = train});
  context.PrintLine(report::TextTable(comparison));
  context.Print("page: {}", (std::filesystem::path(request.out) / "compare.html").string());
  context.SetResult(report::ToJson(comparison));
}

}  // namespace

REGISTER_COMMAND(
    "compare", pipeline::CompareRequest, Compare,
    {.summary = "train one network by several parallel methods, and compare them",
     .description =
         "Every method is run with every number of workers and every seed; runs that are finished are not repeated, so "
         "that a run which was stopped goes on, and methods can be added later. The table `variants` names methods "
         "with settings of their own: bmuf-long = [\"parallel.method=bmuf\", \"parallel.sync-period=64\"]; the table "
         "`workers-of` gives a method numbers of its own: bmuf = [8, 16]; the table `decode` (options of antiphon "
         "decode, but for model and out) has each model recognise a test set. The first method is what the others are "
         "measured against.",
     .example =
         "antiphon compare --training exp/dnn/config.toml --methods serial,ssgd,averaging,bmuf --workers 2,4 --out "
         "exp/compare\n"
         "antiphon compare --training exp/dnn/config.toml --methods serial,bmuf --workers 8 --out exp/compare --set "
         "decode.graph=exp/graph --set decode.data=data/test",
     .required = {"training", "out"},
     .tables = pipeline::kCompareTables});

}  // namespace antiphon::app
