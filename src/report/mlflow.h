// Metrics as a run in MLflow's file store, for `mlflow ui --backend-store-uri FOLDER` and its clients.
//
//   MlflowRun run("exp/mlruns", {.run_folder = "exp/dnn", .parameters = {{"seed", "1"}}});
//   run.Write(record);
//
// Layout, as mlflow's FileStore writes it: FOLDER/EXPERIMENT/meta.yaml, and below it, for each run, meta.yaml,
// params/KEY, tags/KEY and metrics/KEY, a line "MILLISECONDS VALUE STEP" for each value. A step's values have the names
// of metrics.jsonl; an epoch's begin with "epoch_" (but for those on held-out speech), those of the end with "final_".
// The experiment is called "antiphon". No Python, network or server is needed (docs/decisions/0013).
// Resume: the run's number is kept in the run folder (mlflow_run.json). Of a run that goes on, what metrics.jsonl holds
// is written anew, so that the store has no step twice and none that was undone.
// Threads: one; other processes may write other runs. Errors: IoError.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "report/metrics.h"

namespace antiphon::report {

struct MlflowSettings {
  std::filesystem::path run_folder;
  std::vector<std::pair<std::string, std::string>> parameters = {};
};

class MlflowRun {
 public:
  MlflowRun(std::filesystem::path store, MlflowSettings settings);
  /// A run without a "finish" is marked as killed.
  ~MlflowRun();
  MlflowRun(const MlflowRun&) = delete;
  MlflowRun& operator=(const MlflowRun&) = delete;

  /// A record that metrics.jsonl has already. The first one decides whether the run is a new one ("start") or goes on.
  void Write(const MetricsRecord& record);

 private:
  void Begin(bool anew);
  void MakeExperiment();
  void WriteMeta(int status, int64_t end_time) const;
  void Append(const MetricsRecord& record);

  std::filesystem::path store_;
  MlflowSettings settings_;
  std::string run_id_;  // empty before the first record
  int64_t start_time_ = 0;
  bool finished_ = false;
};

}  // namespace antiphon::report
