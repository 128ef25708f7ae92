// Which minibatches the workers take when they go in step, and which come back because a worker was lost.
//
// In every step worker i of n takes the i-th of what came back and then of the epoch's common order. The last steps are
// remembered until their result is in the model of all, so that what a lost worker learned since then is learned by the
// others: it comes first in the next steps, in ascending order.
// Threads: one owner; the same on all ranks. Errors: InputError for a damaged state.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "data/minibatch_pool.h"
#include "math/safetensors.h"

namespace antiphon::train {

class StepOrder {
 public:
  /// A step of n workers. `next` and `end`: what is left of the common order of `epoch`; returns where it goes on.
  int64_t Take(int64_t epoch, int64_t next, int64_t end, int workers);
  /// Those of the step that was taken last, by worker.
  const std::vector<data::MinibatchId>& last_step() const { return steps_.back(); }
  /// All steps but the last `at_risk` are in the model of all.
  void Settle(int64_t at_risk);
  /// What these workers took in the last `at_risk` steps comes back, and is returned.
  std::vector<data::MinibatchId> GiveBack(std::span<const int> workers, int64_t at_risk);

  /// Not taken yet; comes before the common order.
  const std::vector<data::MinibatchId>& returned() const { return returned_; }
  void Clear();
  void SaveState(SafetensorsWriter& writer) const;
  void LoadState(const SafetensorsReader& reader);

 private:
  std::vector<data::MinibatchId> returned_;
  std::deque<std::vector<data::MinibatchId>> steps_;  // by worker, oldest first
};

}  // namespace antiphon::train
