// antiphon resize: a training under way goes on with another number of workers.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/folder_lock.h"
#include "command.h"
#include "parallel/strategy_traits.h"
#include "train/workers_request.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

struct ResizeOptions {
  std::string run;
  train::WorkersRequest request;
  template <class V>
  void Visit(V& v) {
    v("run", run, "folder of a training run that is under way");
    request.Visit(v);
  }
};

void Resize(const ResizeOptions& options, CommandContext& context) {
  const fs::path folder = options.run;
  const fs::path config = folder / "config.toml";
  const bool supervised = FolderLock::IsHeld(folder, train::kSuperviseLock);
  if (!supervised && !FolderLock::IsHeld(folder, train::kTrainLock)) {
    Throw<UsageError>(
        "no training is under way in '{}': go on with {} workers by 'antiphon train --config {} --resume --set "
        "parallel.workers={}'",
        options.run, options.request.workers, config.string(), options.request.workers);
  }
  if (!supervised && !options.request.launch.empty()) {
    throw UsageError(
        "--launch is for a run that was started with --launch or --restarts; this one starts no processes: leave it "
        "out, or stop the run and go on with --resume");
  }
  const Config parallel = Config::Load(config).Table("parallel");
  if (parallel::TraitsOf(parallel).one_worker && options.request.workers > 1) {
    Throw<UsageError>("method '{}' has one worker: start the run anew with another parallel.method",
                      parallel::MethodOf(parallel));
  }
  if (parallel.Text("world").value_or("threads") == "simulated") {
    throw UsageError("a run on a simulated cluster keeps its workers: stop it and go on with --resume");
  }
  train::LeaveRequest(folder, options.request);
  context.Print("asked; the run saves everything between two steps, then trains with {} workers; its log says when",
                options.request.workers);
  context.SetResult(nlohmann::json{{"workers", options.request.workers}, {"supervised", supervised}}.dump());
}

REGISTER_COMMAND(
    "resize", ResizeOptions, Resize,
    {.summary = "let a training under way go on with more or fewer workers",
     .description =
         "The run looks for the request between two steps, saves everything, and continues from there with the new "
         "number of workers: no minibatch is lost, none is learned twice. Its processes stay, or, where it was started "
         "with --launch or --restarts, are started anew, by another --launch if one is given. A method that keeps "
         "minibatches under way, or data in shares, changes at the end of an epoch. What cannot be met is warned of in "
         "the run's log, and the run continues with the workers that it has.",
     .example = "antiphon resize exp/dnn --workers 8\n"
                "antiphon resize exp/dnn --workers 8 --launch 'mpirun -np 8 --hostfile more-hosts'",
     .positionals = {"run"},
     .required = {"run", "workers"}});

}  // namespace
}  // namespace antiphon::app
