// A training as a person asks for it: files and tables are read, checked and run. What `antiphon train` and
// antiphon::Trainer do, each with its own way to be asked and to tell.
//
//   TrainingRequest request;
//   request.store = "exp/store", request.out = "exp/dnn";
//   request.network = Config::Parse("[[layer]]\n…", "network");
//   const TrainingReport report = RunTraining(request, {.group = group, .threads = [] { return 4; }});
//
// Leaves beside the run's files (train/trainer.h) config.toml, with which `antiphon train --config` runs the same
// training again; a training that is refused leaves the one that is there. Threads: one caller per process. Errors:
// UsageError and InputError before anything of an earlier run is touched; those of training.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/options.h"
#include "comm/process_group.h"
#include "comm/simulated_world.h"
#include "train/trainer.h"

namespace antiphon::train {

struct TrainingRequest {
  TrainingRequest();  // where gcc 12 sees it inline, it takes members for uninitialised

  std::string store;
  std::string out;
  std::string held_out_store;
  std::string hmm;
  std::string front_end;
  std::string speaker_model;
  std::string ivector_extractor;
  std::string network_file;
  std::string initial_model;
  bool resume = false;
  bool anew_if_changed = false;
  std::string note;
  std::vector<std::string> log_to;
  TrainOptions train;

  template <class V>
  void Visit(V& v) {
    v("store", store, "frame store to train on (antiphon store makes one)");
    v("out", out,
      "run folder: model.safetensors, checkpoint/, metrics.jsonl, report.html, config.toml, TensorBoard events");
    v("held-out-store", held_out_store, "frame store to evaluate on; empty: speakers are held out of --store");
    v("hmm", hmm, "model whose phones and states the pdf-ids belong to: HMM description (JSON), GMM or network file");
    v("front-end", front_end,
      "TOML file with the features' options (antiphon features leaves one), kept in the model; empty: what the store "
      "says of its features");
    v("speaker-model", speaker_model,
      "GMM model whose speaker-adapted features the store holds, kept in the model for new speakers");
    v("ivector-extractor", ivector_extractor,
      "extractor that made the store's vectors of speakers --online, kept in the model for new speech");
    v("network-file", network_file, "TOML file with the [[layer]] tables, instead of the table `network`");
    v("initial-model", initial_model,
      "model file whose network goes on learning, instead of a new one; its context, heads, HMM and features are kept");
    v("resume", resume, "go on from the newest checkpoint in --out, bit-identically; starts anew if there is none");
    v("anew-if-changed", anew_if_changed,
      "with --resume: start anew, with a warning, if the checkpoint belongs to another experiment; otherwise refuse");
    v("note", note, "sentence about this start, for log, metrics and report");
    v("log-to", log_to,
      "where the metrics go besides the run folder: 'mlflow:FOLDER', a file store of MLflow; by the command of the "
      "Python package also 'mlflow:http://HOST:PORT' and 'wandb:FOLDER'");
    train.Visit(v);
  }

  // Not options of their own.
  std::optional<Config> network;  // the table with [[layer]] tables; none: network_file or initial_model
  Config optimizer, parallel, cluster;
  uint64_t seed = 1;
  int64_t threads = 0;                                      // for config.toml
  Config of_caller;                                         // further keys for config.toml: the caller's own options
  std::string resume_hint;                                  // as TrainingTask
  int64_t pause_after_epochs = 0;                           // as TrainingTask
  std::function<void(const std::string& json)> on_metrics;  // as TrainingTask
};

/// Tables of a configuration that a request takes beside its options.
inline const std::vector<std::string> kTrainingTables = {"network", "optimizer", "parallel", "cluster"};
/// Takes them.
void TakeTables(const Config& config, TrainingRequest& request);

/// Context, heads and chunks of an initial model, and mistakes that can be told before anything is read.
void PrepareRequest(TrainingRequest& request);
/// Reads the files that a prepared request names.
TrainingTask ReadTask(const TrainingRequest& request);
/// What is in the stores, models and other files that a request names by their paths, a line each: differs when one of
/// them was made anew. Reads them through, but of stores the index alone. IoError and InputError for what cannot be
/// read.
std::string DescribeFiles(const TrainingRequest& request);
/// The text of config.toml.
std::string EffectiveConfig(const TrainingRequest& request, const TrainingTask& task);

/// Where a training is run, and whom it tells.
struct TrainingHost {
  comm::ProcessGroup& group;
  std::function<int()> threads;                // of this process; asked anew when processes were lost
  std::function<void()> processes_lost = {};   // to be told of it
  std::function<void()> takes_over = {};       // to be told that this process carries on what a lost rank 0 did
  std::function<std::string()> versions = {};  // of program and libraries, for versions.txt; empty: no such file
};

struct TrainingReport {
  TrainingSummary summary;  // on the process that has rank 0, or has taken over from it
  std::optional<comm::SimulationReport> simulation;
};

/// The table [parallel] with another number of workers.
Config WithWorkers(const Config& parallel, int workers);

/// Collective over the group's processes. Goes on with another number of workers when somebody asks for it
/// (train/workers_request.h), or with that of before, with a warning, if the method refuses it or they are fewer than
/// the processes.
TrainingReport RunTraining(TrainingRequest request, const TrainingHost& host);

}  // namespace antiphon::train
