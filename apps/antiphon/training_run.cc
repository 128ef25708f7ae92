#include "training_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "base/compute_threads.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_descriptor.h"
#include "base/finally.h"
#include "base/folder_lock.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/loss_text.h"
#include "log_sink.h"
#include "machine.h"
#include "processes.h"
#include "supervise.h"
#include "train/trainer.h"
#include "train/workers_request.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

// Options of `antiphon train` beside the request's, for config.toml.
struct OwnOptions {
  std::string evaluate;  // there is a training
  pipeline::SuperviseOptions supervise;
  template <class V>
  void Visit(V& v) {
    v("evaluate", evaluate, "");
    supervise.Visit(v);
  }
};

// What the doctor says of program, libraries and machine.
std::string Versions() {
  std::string text;
  for (const std::string& line : MachineText(".")) text += line + "\n";
  return text;
}

nlohmann::json ToJson(const train::TrainingSummary& s) {
  nlohmann::json json = {{"epochs", s.epochs},
                         {"steps", s.steps},
                         {"frames", s.frames},
                         {"held_out_loss", s.held_out_loss},
                         {"held_out_accuracy", s.held_out_accuracy},
                         {"phone_accuracy", s.phone_accuracy},
                         {"seconds", s.seconds},
                         {"frames_per_second", s.frames_per_second},
                         {"arithmetic_share", s.arithmetic_share},
                         {"virtual_seconds", s.virtual_seconds},
                         {"bytes_sent", s.bytes_sent},
                         {"lost_workers", s.lost_workers},
                         {"minibatches_given_back", s.given_back},
                         {"averaged", s.averaged},
                         {"model_hash", fmt::format("{:016x}", s.model_hash)}};
  if (s.side_probe.kinds > 0) {
    json["side_layer"] = s.side_layer;
    json["side_probe_kinds"] = s.side_probe.kinds;
    json["side_probe_accuracy"] = s.side_probe.accuracy;
  } else if (!s.side_probe.missing.empty()) {
    json["side_probe_missing"] = s.side_probe.missing;
  }
  return json;
}

void PrintSimulation(const comm::SimulationReport& report, CommandContext& context) {
  double compute = 0;
  double all = 0;
  for (const comm::RankUsage& rank : report.ranks) {
    compute += rank.compute_seconds;
    all += rank.end_seconds;
  }
  context.Print(
      "simulated cluster: {:.6g} s of virtual time on {} rank(s), {:.1f} % of it arithmetic; {:.6g} MB in messages",
      report.seconds(), report.ranks.size(), all > 0 ? 100 * compute / all : 100.0, 1e-6 * report.bytes_sent());
}

void PrintSummary(const nlohmann::json& summary, CommandContext& context) {
  context.Print("held-out frame accuracy {:.2f} %, loss {}{}; {:.0f} frames/s, {:.1f} % of the steps' time arithmetic",
                100 * summary.value("held_out_accuracy", 0.0), LossText(summary.value("held_out_loss", 0.0)),
                summary.value("averaged", false) ? " (averaged model)" : "", summary.value("frames_per_second", 0.0),
                100 * summary.value("arithmetic_share", 0.0));
  if (summary.contains("side_probe_kinds")) {
    context.Print("side task: a fresh classifier is right in {:.1f} % of frames by '{}' (a guess among {}: {:.1f} %)",
                  100 * summary.value("side_probe_accuracy", 0.0), summary.value("side_layer", std::string()),
                  summary.value("side_probe_kinds", 0), 100.0 / summary.value("side_probe_kinds", 1));
  } else if (summary.contains("side_probe_missing")) {
    context.Print("side task: no fresh classifier, as {}", summary.value("side_probe_missing", std::string()));
  }
  if (const int64_t lost = summary.value("lost_workers", int64_t{0}); lost > 0) {
    context.Print(
        "{} worker(s) were lost on the way (metrics.jsonl and report.html say when); {} minibatch(es) of theirs went "
        "to the others",
        lost, summary.value("minibatches_given_back", int64_t{0}));
  }
}

void PrintFiles(const fs::path& folder, CommandContext& context) {
  context.Print("model: {}", train::ModelFile(folder).string());
  context.Print("report: {}", (folder / "report.html").string());
}

// Which of many processes was late, or what it saw before it was lost, is looked up in a log of its own.
void KeepLogOfProcess(const fs::path& run, int process) {
  std::error_code ignored;  // opening the file says what is wrong
  fs::create_directories(run / "logs", ignored);
  AlsoLogTo(run / "logs" / fmt::format("process-{}.log", process));
  log::Info("process {} begins, number {} on '{}'", process, ::getpid(), HostName());
}

// As process of the group that was started with this one.
nlohmann::json RunHere(const train::TrainingRequest& request, CommandContext& context) {
  comm::ProcessGroup& group = Processes();
  SpeakAsProcess(group.process(), context);
  if (group.num_processes() > 1) {
    if (!request.out.empty()) KeepLogOfProcess(request.out, group.process());
    log::Info("{}", group.Describe());
  }
  const auto threads = [&] {
    return request.threads > 0 ? static_cast<int>(request.threads) : ThreadsOfProcess(group, context);
  };
  const train::TrainingReport report =
      train::RunTraining(request, {.group = group,
                                   .threads = threads,
                                   .processes_lost = [&] { SpeakAsProcess(group.process(), context); },
                                   .takes_over = [&] { SpeakAsProcess(0, context); },
                                   .versions = Versions});
  nlohmann::json summary = ToJson(report.summary);
  PrintSummary(summary, context);
  if (report.simulation) PrintSimulation(*report.simulation, context);
  return summary;
}

// Tells a file from the one that takes its place, without a look at clocks, which differ between machines.
using FileStamp = std::tuple<ino_t, time_t, long>;

// Opened, so that a file system of several machines looks again.
FileStamp StampOf(const fs::path& path) {
  struct stat now {};
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 || ::fstat(file.get(), &now) != 0) return {};
  return {now.st_ino, now.st_mtim.tv_sec, now.st_mtim.tv_nsec};
}

nlohmann::json RunSupervised(train::TrainingRequest request, const pipeline::SuperviseOptions& options,
                             CommandContext& context) {
  if (comm::LaunchedProcesses() > 1) {
    throw UsageError(
        "--restarts and --launch are for the process outside: instead of 'mpirun -np 4 antiphon train …' start "
        "'antiphon train … --launch \"mpirun -np 4\"'");
  }
  train::PrepareRequest(request);
  const fs::path folder = request.out;
  const FolderLock lock(
      folder, train::kSuperviseLock,
      fmt::format("another training is supervised in '{}': wait for it, or choose another folder (--out)",
                  request.out));
  const train::TrainingTask task = train::ReadTask(request);
  train::RemoveRequest(folder);  // of an earlier run
  std::string supervised, alone;
  const auto describe = [&](const ProcessPlan& plan) {
    request.parallel = train::WithWorkers(request.parallel, plan.workers);
    request.of_caller =
        OptionsToConfig(OwnOptions{.evaluate = "", .supervise = {.restarts = options.restarts, .launch = plan.launch}});
    supervised = train::EffectiveConfig(request, task);
    request.of_caller = OptionsToConfig(OwnOptions());
    alone = train::EffectiveConfig(request, task);
  };
  // The run is told not to restart. If it took the folder, its config.toml is to say what supervised it.
  const fs::path scratch = folder / "supervised.toml";
  const Finally kept([&] {
    const fs::path config = folder / "config.toml";
    std::error_code ignored;  // the run has its outcome
    fs::remove(scratch, ignored);
    try {
      if (fs::exists(config) && ReadFile(config) == alone) WriteFileAtomically(config, supervised);
    } catch (const std::exception& e) {
      log::Warn("'{}' lacks --restarts and --launch: {}", config.string(), e.what());
    }
  });
  ProcessPlan plan{.launch = options.launch, .workers = static_cast<int>(request.parallel.Int("workers").value_or(1))};
  FileStamp before;
  const auto prepare = [&](const ProcessPlan& next) {
    plan = next;
    describe(plan);
    WriteFileAtomically(scratch, alone);
    before = StampOf(folder / "config.toml");
  };
  const auto take_request = [&]() -> std::optional<ProcessPlan> {
    std::optional<train::WorkersRequest> asked;
    try {
      asked = train::FindRequest(folder);
    } catch (const Error& e) {
      log::Warn("the request for another number of workers is not met: {}", e.what());
    }
    train::RemoveRequest(folder);
    if (!asked) return std::nullopt;
    return ProcessPlan{.launch = asked->launch.empty() ? plan.launch : asked->launch, .workers = asked->workers};
  };
  const auto has_begun = [&] { return StampOf(folder / "config.toml") != before; };
  prepare(plan);
  auto summary = nlohmann::json::parse(SuperviseTraining({.config = scratch,
                                                          .take_request = take_request,
                                                          .prepare = prepare,
                                                          .has_begun = has_begun,
                                                          .resume_hint = request.resume_hint},
                                                         plan, request.resume, options.restarts));
  PrintSummary(summary, context);
  return summary;
}

}  // namespace

std::string RunTrainingJob(const pipeline::TrainingJob& job, CommandContext& context) {
  train::TrainingRequest request = pipeline::WithModelFiles(job.request);
  request.of_caller = OptionsToConfig(OwnOptions{.evaluate = "", .supervise = job.supervise});
  request.resume_hint =
      fmt::format("antiphon train --config {} --resume", (fs::path(request.out) / "config.toml").string());
  const nlohmann::json summary =
      job.supervise.any() ? RunSupervised(request, job.supervise, context) : RunHere(request, context);
  PrintFiles(request.out, context);
  return summary.dump();
}

}  // namespace antiphon::app
