// Trains a network on a frame store: epochs, schedule, held-out set, checkpoints, guards, averaging, metrics, the model
// file.
//
//   Trainer trainer(task, options, comm);
//   const TrainingSummary summary = trainer.Run(/*resume=*/false);
//
// Run folder: model.safetensors, checkpoint/, metrics.jsonl, events.out.tfevents.*, config.toml, confusion.json,
// report.html, train.lock (one training at a time). Resume: from the newest sound checkpoint, bit-identically (same
// number of threads and workers), whether the run ended by a signal, an error or kill -9. Guards: a minibatch whose
// loss is not finite, a step of infinite size, or a running loss far above a uniform guess's brings back the last
// checkpoint with lower rates; after several failures DivergenceError. Memory: the network's size times what the
// optimiser and averaging keep; independent of the data's size. Threads: one Trainer per rank; arithmetic in the
// caller's compute threads, minibatches from a thread of their own. Errors: UsageError for impossible plans; Cancelled
// after a signal, with everything saved and the way to go on in the message; WorkersChanged, likewise, when the run is
// to go on with other workers (train/workers_request.h); IoError when the run folder cannot be
// written (checkpoints written before stay whole).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "data/frame_store.h"
#include "hmm/hmm_model.h"
#include "nn/model.h"
#include "train/probe.h"
#include "train/train_options.h"

namespace antiphon::train {

/// What is trained on what.
struct TrainingTask {
  std::shared_ptr<const data::FrameStore> store;
  std::shared_ptr<const data::FrameStore> held_out_store;  // null: part of `store`, see HeldOutOptions
  std::filesystem::path folder;                            // of the run
  Config network;                                          // `[[layer]]` tables
  std::shared_ptr<const nn::Model> initial;                // its network goes on learning; `network` is not read
  std::vector<std::shared_ptr<const nn::Model>> teachers;  // see TrainOptions::teacher
  data::Mixing mixing;                                     // speech of another kind in `store`, and where it goes
  Config optimizer;                                        // type and its keys
  Config parallel;                                         // method and its keys
  std::optional<hmm::HmmModel> hmm;                        // goes into the model file; names phones in the report
  std::string feature_config;                              // as nn::Model
  std::vector<std::byte> speaker_model;                    // as nn::Model
  std::vector<std::byte> ivector_extractor;                // as nn::Model
  uint64_t seed = 1;
  bool anew_if_changed = false;  // on resuming, start anew instead of refusing another experiment's checkpoint
  std::string note;              // about this start: goes into metrics and report
  bool after_loss = false;       // this start goes on without a lost process, which may still hold the folder's lock
  // Once so many epochs are done and saved, the run ends as if somebody had asked it to stop; 0: it comes to its end.
  int64_t pause_after_epochs = 0;
  std::string resume_hint;  // what the person types to go on, for messages; empty: nothing goes on with it
  // On rank 0, once the folder is held and goes on with this experiment, or was emptied for it.
  std::function<void()> on_folder_taken;
  std::function<void()> on_begun;                           // on every rank, once all know that it is so
  std::function<void()> on_taking_over;                     // on the rank that goes on in the place of a lost rank 0
  std::function<void(const std::string& json)> on_metrics;  // hears of every record of metrics.jsonl, on rank 0
};

struct TrainingSummary {
  int64_t epochs = 0;
  int64_t steps = 0;
  int64_t frames = 0;      // of all workers, as are
  int64_t bytes_sent = 0;  // between them
  double held_out_loss = 0;
  double held_out_accuracy = 0;
  double phone_accuracy = 0;     // 0 without hmm
  double seconds = 0;            // of training, held-out evaluation and checkpoints included
  double frames_per_second = 0;  // over the steps
  double arithmetic_share = 0;   // of the steps' time
  double virtual_seconds = 0;    // on a simulated cluster; 0 elsewhere
  int fallbacks = 0;
  int64_t lost_workers = 0;  // without which the others went on
  int64_t given_back = 0;    // minibatches that were theirs and went to the others
  bool averaged = false;
  /// With a side task: how well a fresh classifier tells its classes apart from the layer that its head looked at.
  std::string side_layer;
  ProbeResult side_probe;
  uint64_t model_hash = 0;
};

class Trainer {
 public:
  Trainer(TrainingTask task, const TrainOptions& options, comm::Communicator& comm);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// With `resume`, goes on from the newest checkpoint if there is one; otherwise starts anew, and what the folder
  /// holds of an earlier run is removed.
  TrainingSummary Run(bool resume);
  /// Whether this rank writes for all: rank 0, or if that was lost the one that has taken over.
  bool is_first() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The files of a run folder.
std::filesystem::path ModelFile(const std::filesystem::path& run_folder);
std::filesystem::path CheckpointPath(const std::filesystem::path& run_folder);

}  // namespace antiphon::train
