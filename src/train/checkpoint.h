// Everything that a run needs to go on bit-identically, as one file per rank, kept in a folder.
//
// Files are "step-000001234.rank-0.safetensors" with a checksum, written whole or not at all (AtomicFile). What is the
// same on all ranks (parallel::CommonState) stands in rank 0's file alone; the others name it in their metadata
// ("common"). A step counts when all ranks have a sound file of it, which they wrote together: of the same "writing",
// a number that each start of the program draws anew (Worker). Tensors: "network." parameters and
// buffers, "best." those of the best model (newbob), "average." the running average, "optimizer", "strategy",
// "schedule"; numbers in the metadata. The subfolder "pretraining" holds those of before the first epoch, with tensors
// "pretraining." of the stage under way. Errors: IoError when writing (disk full, read-only: the older checkpoints
// stay); InputError for a checkpoint of another network or experiment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "math/safetensors.h"
#include "nn/loss.h"
#include "nn/network.h"

namespace antiphon::train {

/// Where in the run a worker stands.
struct Position {
  int64_t epoch = 0;               // from 0
  int64_t step_in_epoch = 0;       // steps of this epoch that are done
  int64_t minibatch_in_epoch = 0;  // of all workers, in the epoch's common order
  int64_t step = 0;                // of the whole run
  int64_t frames = 0;              // of the whole run, this worker's
  int64_t epoch_frames = 0;        // of this epoch, this worker's
  nn::LossResult epoch_loss;       // over the epoch so far
  nn::LossResult log_loss;         // since the last line of metrics
  double running_loss = -1;        // of the guard; < 0: none yet
  std::vector<int64_t> averaged;   // models in each average (train/kept_models.h)
  int fallbacks = 0;               // since the last good epoch
  bool finished = false;           // all epochs are done
  bool best_is_current = true;
  double arithmetic_seconds = 0;
  double data_seconds = 0;
  double communication_seconds = 0;
  double other_seconds = 0;
  int64_t bytes_sent = 0;  // to other ranks
  int64_t lost_workers = 0;
  int64_t given_back = 0;  // minibatches that lost workers had taken
  uint64_t metrics_bytes = 0;
  uint64_t events_bytes = 0;

  void Save(SafetensorsWriter& writer) const;
  void Load(const SafetensorsReader& reader);
};

/// `network` stays as it is until the file is written.
void SaveNetwork(SafetensorsWriter& writer, const std::string& prefix, const nn::Network& network);
/// Throws InputError naming the tensor that does not fit.
void LoadNetwork(const SafetensorsReader& reader, const std::string& prefix, nn::Network& network);

/// A whole file of a rank, and which writing it belongs to; 0 for those of earlier versions.
struct SoundFile {
  int64_t step = -1;
  uint64_t writing = 0;
};

/// Metadata of a rank's file: its writing, and the tensors that rank 0's file holds for it.
void NoteWriting(SafetensorsWriter& writer, uint64_t writing);
uint64_t WritingOf(const SafetensorsReader& reader);
std::vector<std::string> CommonNames(const SafetensorsReader& reader);
/// Completes a rank's file by rank 0's. InputError if they were not written together.
void TakeCommon(SafetensorsReader& own, std::shared_ptr<const SafetensorsReader> first);

/// The checkpoints of one rank in a folder.
class CheckpointFolder {
 public:
  CheckpointFolder(std::filesystem::path folder, int rank, int world_size, int keep);

  /// Removes what is more than there is to keep; to be called when all ranks have written.
  void RemoveOld() const;
  /// Newest step up to `not_after` of which this rank has a whole file of a run with as many ranks. Files that are cut
  /// short or changed are passed over, with a warning in the log.
  std::optional<SoundFile> NewestSound(int64_t not_after) const;
  /// This rank's file of a step, and another's.
  std::filesystem::path File(int64_t step) const { return File(step, rank_); }
  std::filesystem::path File(int64_t step, int rank) const;
  /// Of a file's name; -1 if it is none.
  static int64_t StepOf(const std::filesystem::path& file);
  /// Newest step of a run with another number of ranks whose files are all here and whole, and that number.
  struct OtherRun {
    int64_t step = -1;
    int64_t world_size = 0;
  };
  using Accepts = std::function<bool(const std::vector<SafetensorsReader>& ranks)>;
  /// `accepts` empty: any.
  std::optional<OtherRun> NewestOfOtherSize(const Accepts& accepts = nullptr) const;
  /// The files of all ranks of a step, each complete.
  std::vector<SafetensorsReader> OpenAll(int64_t step, int64_t world_size) const;
  /// Removes this rank's checkpoints and what a crash left half-written; rank 0 also those of ranks that there are no
  /// more.
  void Clear() const;

 private:
  std::vector<int64_t> Steps(int rank) const;  // ascending
  void RemoveOfLost(int64_t step) const;
  std::filesystem::path folder_;
  int rank_;
  int world_size_;
  int keep_;
};

}  // namespace antiphon::train
