// Saves the state of a run: which parts of it each rank writes, and when.
//
// Files and their meaning: train/checkpoint.h. Threads: one; a file may be written by a thread of its own. Errors:
// IoError; Diverged for a model that is not to be saved; Cancelled and WorkersChanged from Stop, IoError from
// StopUnsaved.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "train/rendezvous.h"
#include "train/run_checkpoints.h"
#include "train/run_parts.h"

namespace antiphon::train {

class RunSaver {
 public:
  /// Collective.
  explicit RunSaver(RunParts& run);

  /// Between two steps. Copies the state; it is on the disk after Finish, or before the next one is begun. Collective.
  void Write();
  /// The checkpoint that was begun last is on all ranks' disks. Collective; IoError if that failed.
  void Finish() { checkpoints_.Finish(); }
  /// The same for this rank alone, before it gives up.
  void Wait() const { checkpoints_.Wait(); }
  /// In the middle of pre-training, after `step` of its steps; `add_state` adds what the stage under way needs, of
  /// which all ranks have those tensors alike whose names `common` takes. As Write.
  void WritePretraining(int64_t step, const std::function<void(SafetensorsWriter&)>& add_state,
                        const std::function<bool(std::string_view)>& common);
  /// Removes the checkpoints of pre-training, once the epochs have one.
  void FinishPretraining();

  /// Ranks were lost, and the others have new numbers.
  void NoteLoss();
  /// Ranks were lost, and no checkpoint was written since.
  bool loss_unsaved() const { return loss_unsaved_; }

  /// Writes nothing that is lost, and throws Cancelled; WorkersChanged if the run is to go on with so many `workers`.
  [[noreturn]] void Stop(int workers = 0);
  /// For a request to stop that came `where` nothing can be saved: an IoError, as Cancelled means that work was saved.
  [[noreturn]] static void StopUnsaved(const Cancelled& request, std::string_view where);
  /// What to say to who asked to stop `where`.
  std::string CancelledMessage(const std::string& where) const;

  RunCheckpoints& checkpoints() { return checkpoints_; }
  RunRequests& requests() { return requests_; }
  /// When the ranks save or stop in the middle of an epoch.
  Rendezvous& rendezvous() { return rendezvous_; }

 private:
  void Begin();
  std::function<bool(std::string_view)> SavedByFirst();

  RunParts& run_;
  RunCheckpoints checkpoints_;
  RunRequests requests_;
  Rendezvous rendezvous_;
  bool loss_unsaved_ = false;
};

}  // namespace antiphon::train
