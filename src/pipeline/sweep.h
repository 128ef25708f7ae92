// One training with other values of some options: which do best on held-out speech.
//
//   SweepRequest request;
//   request.training = "exp/dnn/config.toml", request.out = "exp/sweep";
//   request.vary = Config::Parse("schedule.learning-rate = 'log:0.01..1'", "vary");
//   const std::vector<report::SweptRun> runs = Sweep(request, host);   // the best one first
//
// Leaves a run folder for each, and sweep.html, sweep.md and sweep.json, which are brought up to date after each run.
// Resume: Sweep again. Runs that are through are not repeated, others continue from their checkpoint, bit-identically,
// whatever ended the sweep; so the result is that of one which was not interrupted. Each run's reached.json says how
// far it came with which configuration and with what in the stores, models and other files that this names: a run
// starts anew if either has changed.
// Seed: that of the run's `vary`, else of `with`, else the host's if somebody gave it, else that of `training`.
// Giving up: once all runs have done the epochs of `stop-after`, the share `keep` of them continues, the best ones by
// held-out loss; again at the next such number. Schedules are those of whole runs. All wait for all there, so that
// neither the order of the runs nor how many run at once decides which continue.
// Source: successive halving, Jamieson and Talwalkar, AISTATS 2016.
//
// Threads: one caller per process; `at_once` trainings in threads of their own. Errors: UsageError; what a run itself
// is refused for, and its divergence, become its row's failure; Cancelled, when all runs under way are saved.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/options.h"
#include "pipeline/training_job.h"
#include "report/pages/sweep_report.h"

namespace antiphon::pipeline {

struct SweepRequest {
  std::string training;
  std::string out;
  std::string title = "Values of some options";
  std::vector<std::string> with;
  std::string search = "random";
  int runs = 16;
  int at_once = 1;
  std::vector<int> stop_after;
  double keep = 0.5;

  template <class V>
  void Visit(V& v) {
    v("training", training, kTrainingHelp);
    v("out", out, "folder for the runs, sweep.html, sweep.md and sweep.json");
    v("title", title, "of the page");
    v("with", with, kTrainingWithHelp);
    v("search", search, OneOf{{"random", "grid"}}, "draw values, or take all combinations");
    v("runs", runs, Range{1, 10000}, "of a random search; more can be added later");
    v("at-once", at_once, Range{1, 256}, "runs that go at the same time; they share the threads");
    v("stop-after", stop_after, Range{1, 100000},
      "epochs, in rising order, after which only the best runs continue; empty: all come to their end");
    v("keep", keep, Range{0.01, 1}, "share of the runs that continues after each of these");
  }

  // Not options of their own.
  Config vary;                // what is varied (pipeline/sweep_space.h)
  std::string configuration;  // for the page: what the person set
};

/// Tables of a configuration that a request takes beside its options.
inline const std::vector<std::string> kSweepTables = {"vary"};
/// Takes them.
void TakeTables(const Config& config, SweepRequest& request);

struct SweepHost {
  int threads = 1;
  uint64_t seed = 1;  // what random runs draw from, and trainings that say none
  bool seed_is_given = false;
  /// Runs a training as far as it is told to, on so many threads; from several threads at once if `at_once` says so.
  std::function<void(const TrainingJob& job, int threads)> train;
  /// A sentence for the person; one call at a time.
  std::function<void(const std::string& sentence)> say;
};

/// Sorted, the best one first.
std::vector<report::SweptRun> Sweep(const SweepRequest& request, const SweepHost& host);

}  // namespace antiphon::pipeline
