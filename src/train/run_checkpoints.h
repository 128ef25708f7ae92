// The checkpoints of a run as all its ranks see them: which step all have, and writing one while training goes on.
//
// Files and their meaning: train/checkpoint.h. Threads: one; a file may be written by a thread of its own. Errors:
// IoError when a file cannot be written (from Finish, if it is written behind the arithmetic); InputError for damaged
// ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "comm/communicator.h"
#include "train/background_write.h"
#include "train/checkpoint.h"

namespace antiphon::train {

class RunCheckpoints {
 public:
  RunCheckpoints(std::filesystem::path folder, int keep, comm::Communicator& comm);
  /// So that files of two starts of the program are never taken for those of one; before the first is written.
  /// Collective.
  void DrawNumber();

  /// The newest step of which every rank has a sound file: this rank's. Collective.
  std::optional<std::filesystem::path> Newest() const { return NewestIn(epochs_); }
  /// The same of before the first epoch.
  std::optional<std::filesystem::path> NewestOfPretraining() const { return NewestIn(pretraining_); }
  /// The newest step of a run of another size that rank 0 `accepts`; step −1 if there is none. Collective.
  CheckpointFolder::OtherRun NewestOfOtherSize(const CheckpointFolder::Accepts& accepts) const {
    return OtherSizeIn(epochs_, accepts);
  }
  /// The same of before the first epoch.
  CheckpointFolder::OtherRun NewestPretrainingOfOtherSize() const { return OtherSizeIn(pretraining_, nullptr); }
  std::filesystem::path File(int64_t step, int rank) const { return epochs_.File(step, rank); }
  std::filesystem::path PretrainingFile(int64_t step, int rank) const { return pretraining_.File(step, rank); }
  /// This rank's file, with what rank 0 saved for it. Collective.
  SafetensorsReader Open(const std::filesystem::path& file);
  std::vector<SafetensorsReader> OpenAll(const CheckpointFolder::OtherRun& other) const {
    return epochs_.OpenAll(other.step, other.world_size);
  }

  /// Begins to write the state of `step`; the one before must be finished. It is written when this returns unless
  /// `background`, for which the writer takes copies of what it points to.
  void Begin(std::shared_ptr<SafetensorsWriter> writer, int64_t step, bool background) {
    BeginIn(epochs_, "step", std::move(writer), step, background);
  }
  /// The same in the middle of pre-training, of its step.
  void BeginPretraining(std::shared_ptr<SafetensorsWriter> writer, int64_t step, bool background) {
    BeginIn(pretraining_, "pre-training's step", std::move(writer), step, background);
  }
  /// The one that was begun last is on all ranks' disks, and older ones are gone; unless ranks were lost since, whose
  /// files are missing. Collective; IoError if that failed.
  void Finish();
  /// Waits for this rank's own file; what went wrong is still to be thrown.
  void Wait() const { writing_.Wait(); }

  /// Removes all of them, of before the first epoch as well.
  void Clear() const;
  void ClearPretraining() const;
  /// When ranks were lost, and the others have new numbers.
  void Renumber() { epochs_ = CheckpointFolder(folder_, comm_.rank(), comm_.world_size(), keep_); }

 private:
  std::optional<std::filesystem::path> NewestIn(const CheckpointFolder& folder) const;
  CheckpointFolder::OtherRun OtherSizeIn(const CheckpointFolder& folder,
                                         const CheckpointFolder::Accepts& accepts) const;
  void BeginIn(const CheckpointFolder& folder, const std::string& what, std::shared_ptr<SafetensorsWriter> writer,
               int64_t step, bool background);

  std::filesystem::path folder_;
  int keep_;
  comm::Communicator& comm_;
  CheckpointFolder epochs_;
  CheckpointFolder pretraining_;
  BackgroundWrite writing_;
  int begun_by_;         // so many ranks
  uint64_t number_ = 0;  // of the checkpoint written last; the same on all ranks, and never drawn twice
};

}  // namespace antiphon::train
