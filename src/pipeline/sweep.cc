#include "pipeline/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "base/cancel.h"
#include "base/error.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/log.h"
#include "base/loss_text.h"
#include "base/printed_json.h"
#include "base/toml_text.h"
#include "base/try_thread.h"
#include "pipeline/sweep_space.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;
using report::SweptRun;

constexpr int kToTheEnd = 0;

// How far a run came with a configuration, as its folder keeps it.
struct Reached {
  std::string configuration;
  std::string files;  // as DescribeFiles; empty in those of earlier versions
  int epochs = 0;
  bool finished = false;
  std::string diverged;  // why it cannot go on

  static Reached Load(const fs::path& file) {
    Reached reached;
    if (!fs::exists(file)) return reached;
    const auto json = nlohmann::json::parse(ReadFile(file), nullptr, false);
    if (!json.is_object()) return reached;  // of another program: as if there were nothing
    reached.configuration = json.value("configuration", "");
    reached.files = json.value("files", "");
    reached.epochs = json.value("epochs", 0);
    reached.finished = json.value("finished", false);
    reached.diverged = json.value("diverged", "");
    return reached;
  }
  void Save(const fs::path& file) const {
    const nlohmann::ordered_json json = {{"configuration", configuration},
                                         {"files", files},
                                         {"epochs", epochs},
                                         {"finished", finished},
                                         {"diverged", diverged}};
    WriteFileAtomically(file, PrintedJson(json, 1) + "\n");
  }
};

class Sweeper {
 public:
  Sweeper(const SweepRequest& request, const SweepHost& host) : request_(request), host_(host), runs_(Planned()) {
    if (!std::is_sorted(request.stop_after.begin(), request.stop_after.end(), std::less_equal<>())) {
      throw UsageError("stop-after: expected numbers of epochs in rising order");
    }
    // Mistakes in keys and values are told before hours of training.
    CheckKeys();
    for (SweptRun& run : runs_) CheckRun(run);
  }

  std::vector<SweptRun> Run() {
    std::vector<size_t> going(runs_.size());
    std::iota(going.begin(), going.end(), size_t{0});
    WriteResults();
    for (const int epochs : request_.stop_after) {
      TrainAll(going, epochs);
      GiveUpWorst(going, epochs);
    }
    TrainAll(going, kToTheEnd);
    return report::Sorted(runs_);
  }

 private:
  std::vector<SweptRun> Planned() const {
    const std::vector<SweptOption> options = ReadSweptOptions(request_.vary);
    const std::vector<SweptValues> all =
        request_.search == "grid" ? GridOf(options) : RandomRuns(options, request_.runs, host_.seed);
    if (request_.search == "random" && std::ssize(all) < request_.runs) {
      log::Warn("there are only {} different runs, not {}", all.size(), request_.runs);
    }
    std::vector<SweptRun> runs;
    for (const SweptValues& values : all) {
      SweptRun run;
      run.number = static_cast<int>(runs.size()) + 1;
      run.values = values;
      run.folder = fs::path(request_.out) / fmt::format("run-{:04}", run.number);
      runs.push_back(std::move(run));
    }
    return runs;
  }

  void CheckKeys() const {
    Config with;
    for (const std::string& assignment : request_.with) with.SetFromFlag(assignment);
    for (const char* const key : {"out", "threads", "resume", "anew-if-changed"}) {
      for (const auto& [name, config] : {std::pair("vary", request_.vary), std::pair("with", with)}) {
        if (config.Has(key)) {
          Throw<UsageError>("{}: a sweep gives its runs '{}' itself: leave it out of `{}`", config.Where(key), key,
                            name);
        }
      }
    }
  }

  // Everything that a run is told, but for its threads, which do not change what it learns.
  Config TrainingOf(const SweptRun& run) const {
    Config config = Config::Load(request_.training);
    if (host_.seed_is_given || !config.Has("seed")) config.Set("seed", std::to_string(host_.seed));
    for (const std::string& assignment : request_.with) config.SetFromFlag(assignment);
    for (const auto& [key, value] : run.values) config.Set(key, value);
    config.Set("out", TomlString(run.folder.string()));
    config.Set("threads", "0");
    config.Set("resume", "true");
    config.Set("anew-if-changed", "true");
    return config;
  }

  void CheckRun(SweptRun& run) const {
    WithContext([&] { ReadTrainingJob(TrainingOf(run)); }, [&] { return fmt::format("run {}", run.number); });
  }

  // All of `going` that are not there yet, `at_once` of them at a time.
  void TrainAll(const std::vector<size_t>& going, int epochs) {
    const auto workers = std::min(static_cast<size_t>(request_.at_once), going.size());
    const int threads = std::max(1, host_.threads / std::max(1, static_cast<int>(workers)));
    size_t next = 0;
    std::exception_ptr failure;
    const auto work = [&] {
      for (;;) {
        size_t index = 0;
        {
          const std::lock_guard lock(mutex_);
          if (failure || next == going.size()) return;
          index = going[next++];
        }
        try {
          TrainOne(runs_[index], epochs, threads);
        } catch (...) {
          const std::lock_guard lock(mutex_);
          if (!failure) failure = std::current_exception();
        }
      }
    };
    std::vector<std::thread> others;
    if (workers > 1) others = TryThreads(workers, work);
    if (others.empty()) work();
    for (std::thread& thread : others) thread.join();
    if (failure) std::rethrow_exception(failure);
  }

  void TrainOne(SweptRun& run, int epochs, int threads) {
    ThrowIfCancelled("sweeping");
    const Config training = TrainingOf(run);
    const fs::path file = run.folder / "reached.json";
    Reached reached = FromHere(run, training, Reached::Load(file));
    std::string failure = reached.diverged;
    const bool there = reached.finished || (epochs != kToTheEnd && reached.epochs >= epochs);
    if (!there && failure.empty()) {
      Tell(run, SweptRun::State::kUnderWay, "");
      failure = Train(training, run, epochs, threads, reached);
      if (failure.empty() || !reached.diverged.empty()) reached.Save(file);
    }
    Tell(run,
         !failure.empty()   ? SweptRun::State::kFailed
         : reached.finished ? SweptRun::State::kFinished
                            : SweptRun::State::kUnderWay,
         failure);
  }

  // What counts of what a run has reached.
  Reached FromHere(const SweptRun& run, const Config& training, const Reached& before) const {
    Reached now;
    now.configuration = training.ToToml();
    const bool same = before.configuration == now.configuration;
    const bool ended = same && (before.finished || !before.diverged.empty());
    try {
      now.files = train::DescribeFiles(WithModelFiles(ReadTrainingJob(training).request));
    } catch (const Error& e) {
      if (!ended) throw;
      log::Warn("run {} had ended, and counts as it is: {}", run.number, e.what());
      return before;
    }
    if (!same) return now;
    if (before.files == now.files) return before;
    // Nobody knows of an earlier version's run what the files held then: the training compares its checkpoint.
    if (before.files.empty()) {
      const bool compares = before.diverged.empty() && fs::exists(run.folder / "checkpoint");
      return ended && !compares ? before : now;
    }
    log::Warn("run {}: stores, models or other files that it names have changed since; it starts anew", run.number);
    fs::remove_all(run.folder / "checkpoint");
    now.Save(run.folder / "reached.json");
    return now;
  }

  // Why it cannot be; "" if it did what it was told.
  std::string Train(const Config& training, const SweptRun& run, int epochs, int threads, Reached& reached) const {
    try {
      TrainingJob job = ReadTrainingJob(training);
      job.request.resume = fs::exists(run.folder / "checkpoint");
      job.request.threads = threads;
      job.request.pause_after_epochs = epochs;
      if (epochs != kToTheEnd && job.supervise.any()) {
        throw UsageError("stop-after needs trainings in this process: leave out restarts and launch");
      }
      host_.train(job, threads);
      reached.finished = true;
    } catch (const Cancelled&) {
      // Of a run that was to pause: it has come that far, and nobody asked.
      if (epochs == kToTheEnd || CancelRequested()) throw;
      reached.epochs = epochs;
    } catch (const UsageError& e) {
      return e.what();
    } catch (const DivergenceError& e) {
      return reached.diverged = e.what();
    }
    return "";
  }

  // Those that do not go on leave `going`.
  void GiveUpWorst(std::vector<size_t>& going, int epochs) {
    std::stable_sort(going.begin(), going.end(), [&](size_t a, size_t b) {
      return report::LossAfter(runs_[a], epochs) < report::LossAfter(runs_[b], epochs);
    });
    const auto kept = static_cast<size_t>(std::ceil(request_.keep * static_cast<double>(going.size()) - 1e-9));
    for (size_t i = kept; i < going.size(); ++i) {
      SweptRun& run = runs_[going[i]];
      if (run.state == SweptRun::State::kUnderWay) run.state = SweptRun::State::kGivenUp;
    }
    host_.say(fmt::format("after {} epoch(s) {} of {} runs go on", epochs, kept, going.size()));
    going.resize(kept);
    std::sort(going.begin(), going.end());
    WriteResults();
  }

  void Tell(SweptRun& run, SweptRun::State state, const std::string& failure) {
    const std::lock_guard lock(mutex_);
    run.state = state;
    run.failure = failure;
    report::TakeFigures(run);
    std::string values;
    for (const auto& [key, value] : run.values) values += fmt::format(" {}={}", key, value);
    const std::string name = fmt::format("run {} of {}:{}", run.number, runs_.size(), values);
    if (!failure.empty()) {
      log::Warn("{}: {}", name, failure);
    } else if (const int epochs = run.epochs; epochs > 0) {
      host_.say(fmt::format("{}: held-out loss {}, {:.2f} % of frames right after {} epoch(s)", name,
                            LossText(run.loss), 100 * run.accuracy, epochs));
    } else {
      log::Info("{}", name);
    }
    WriteResults();
  }

  void WriteResults() const {
    const fs::path out = request_.out;
    const std::vector<SweptRun> sorted = report::Sorted(runs_);
    const auto ended = std::count_if(sorted.begin(), sorted.end(), [](const SweptRun& run) {
      return run.state != SweptRun::State::kWaiting && run.state != SweptRun::State::kUnderWay;
    });
    const std::string subtitle = ended == std::ssize(sorted)
                                     ? fmt::format("{}: {} runs", request_.out, sorted.size())
                                     : fmt::format("{}: {} of {} runs so far", request_.out, ended, sorted.size());
    report::WriteSweep(sorted, request_.title, subtitle, request_.configuration + "\n" + ReadFile(request_.training),
                       out / "sweep.html");
    WriteFileAtomically(out / "sweep.md", report::MarkdownTable(sorted));
    WriteFileAtomically(out / "sweep.json", report::ToJson(sorted) + "\n");
  }

  const SweepRequest& request_;
  const SweepHost& host_;
  std::mutex mutex_;
  std::vector<SweptRun> runs_;  // states and figures guarded by mutex_ while trainings go
};

}  // namespace

void TakeTables(const Config& config, SweepRequest& request) {
  request.vary = config.Table("vary");
  request.configuration = config.ToToml();
}

std::vector<SweptRun> Sweep(const SweepRequest& request, const SweepHost& host) {
  const FolderLock lock(
      request.out, "sweep.lock",
      fmt::format("another sweep is working in '{}': wait for it, or give another folder with --out", request.out));
  return Sweeper(request, host).Run();
}

}  // namespace antiphon::pipeline
