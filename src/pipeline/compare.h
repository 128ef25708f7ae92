// One training by several methods, numbers of workers and seeds: trained, recognised with if asked for, and compared.
//
//   CompareRequest request;
//   request.training = "exp/dnn/config.toml", request.methods = {"serial", "bmuf"}, request.workers = {4};
//   request.out = "exp/compare";
//   const report::Comparison comparison = Compare(request, host);
//
// Leaves a folder for each run, and compare.html, compare.md and compare.json, which are brought up to date after each
// run. Runs that are finished are not repeated. Threads: one caller per process. Errors: UsageError; what a run itself
// is refused for, and its divergence, become its row's failure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/options.h"
#include "pipeline/stage_host.h"
#include "pipeline/training_job.h"
#include "report/pages/comparison_report.h"

namespace antiphon::pipeline {

struct CompareRequest {
  std::string training;
  std::string out;
  std::string title = "Ways to train one network";
  std::vector<std::string> with;
  std::vector<std::string> methods = {"serial"};
  std::vector<int> workers = {1};
  int seeds = 3;

  template <class V>
  void Visit(V& v) {
    v("training", training, kTrainingHelp);
    v("out", out, "folder for the runs, compare.html, compare.md and compare.json");
    v("title", title, "of the page");
    v("with", with, kTrainingWithHelp);
    v("methods", methods, "values of parallel.method, or names of `variants` tables");
    v("workers", workers, Range{1, 4096},
      "numbers of workers, unless workers-of.METHOD says; method serial is run by one");
    v("seeds", seeds, Range{1, 1000}, "runs of each, with seeds --seed, --seed + 1 …");
  }

  // Not options of their own.
  Config variants;               // NAME = ["key=value", …]: a method with settings of its own
  Config workers_of;             // METHOD = [numbers of workers]
  std::optional<Config> decode;  // options of a decoding, but model and out; none: nothing is recognised
  std::string configuration;     // for the page: what the person set
};

/// Tables of a configuration that a request takes beside its options.
inline const std::vector<std::string> kCompareTables = {"variants", "workers-of", "decode"};
/// Takes them.
void TakeTables(const Config& config, CompareRequest& request);

struct CompareHost {
  StageHost stage;
  /// Runs a training to its end.
  std::function<void(const TrainingJob& job)> train;
};

/// One seed of everything comes first, so that a comparison which is cut short compares.
report::Comparison Compare(const CompareRequest& request, const CompareHost& host);

}  // namespace antiphon::pipeline
