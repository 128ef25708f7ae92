// Trains a network on a frame store: all that `antiphon train` does, by the same code; workers live in this process.
//
//   antiphon::TrainerSettings settings;
//   settings.frame_store = "exp/store";
//   settings.run_folder = "exp/net";
//   settings.config = "epochs = 5\n[[network.layer]]\ntype = 'affine'\ndim = 512\n…";
//   const antiphon::TrainingResult result = antiphon::Trainer(settings).Run();
//
// Units: losses in nats per frame, accuracies as shares of frames, 0 … 1. In records of the kinds "step" and "epoch",
// epochs count from 1, and `step` is how many are done.
// Ownership: values; copies are apart, and moving one copies it.
// Threads: a call uses TrainerSettings::threads of its own; one Run at a time per object and per run folder.
// Errors: antiphon::Error (antiphon/error.h): kUsage for settings that cannot be, kInput for a store or a configuration
// that is damaged or does not fit, kIo, kPeer, kDivergence, kCancelled. Checkpoints that were written stay whole, and a
// further Run with `resume` goes on bit-identically.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "antiphon/cancel.h"
#include "antiphon/export.h"

namespace antiphon {

struct TrainerSettings {
  std::string frame_store = {};  // folder that `antiphon store` made
  std::string run_folder = {};   // gets model.safetensors, checkpoint/, metrics.jsonl, report.html
  std::string hmm = {};          // model whose states the pdf-ids are; kept in the model, so that it can decode
  std::string front_end = {};    // TOML file with the features' options; kept in the model
  // TOML: the options of `antiphon train` (an initial model, teachers, sequence training, a side task …) and its tables
  // network, optimizer, parallel, cluster. What is set above holds against it.
  std::string config = {};
  uint64_t seed = 1;
  int threads = 0;  // 0: all cores
  bool resume = false;
  // Where the metrics go besides the run folder, as `antiphon train --log-to` takes it: "mlflow:FOLDER"
  std::vector<std::string> log_to = {};
  // Stops the training between two steps, in each of its threads: everything is saved, Run throws an Error of the kind
  // kCancelled, and a further Run with `resume` goes on bit-identically.
  CancelToken cancel = {};
  // Hears of every record of metrics.jsonl as it is written: one JSON object with `kind` "start", "step", "epoch",
  // "event" or "finish". One call at a time, from a thread of the training, which waits for it; what it throws ends the
  // training as an error does.
  std::function<void(const std::string& json)> on_metrics = {};
};

struct TrainingResult {
  std::string model_file;
  std::string report_file;
  int64_t frames = 0;
  double held_out_accuracy = 0.0;  // of frames
  double held_out_loss = 0.0;      // nats per frame
  double frames_per_second = 0.0;
};

class ANTIPHON_API Trainer {
 public:
  /// Reads nothing yet.
  explicit Trainer(TrainerSettings settings);
  Trainer(const Trainer&) = default;
  Trainer& operator=(const Trainer&) = default;
  ~Trainer() = default;

  /// All of it, up to model.safetensors and the report.
  TrainingResult Run();

 private:
  TrainerSettings settings_;
};

}  // namespace antiphon
