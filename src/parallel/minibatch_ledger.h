// Who has which minibatch of the common pool: each is trained on once per epoch, and one that is dropped or lost goes
// back.
//
// A round covers minibatches [first, last) of an epoch's order. Minibatches that came back are handed out first, lowest
// index first, also in the next round.
// Threads: one owner. Errors: InternalError for confirming or returning what nobody has.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "math/safetensors.h"

namespace antiphon::parallel {

class MinibatchLedger {
 public:
  explicit MinibatchLedger(int workers) : outstanding_(static_cast<size_t>(workers)) {}

  void BeginRound(int64_t first, int64_t last);
  /// Between rounds.
  void SetWorkers(int workers) { outstanding_.resize(static_cast<size_t>(workers)); }
  /// Nothing new is handed out any more in this round; what came back still is.
  void Stop() { last_ = next_; }
  /// nullopt: there is nothing to hand out (something may still come back).
  std::optional<int64_t> Take(int worker);
  /// The minibatches' updates have been made.
  void Confirm(int worker, std::span<const int64_t> minibatches);
  void GiveBack(int worker, std::span<const int64_t> minibatches);
  /// A worker is gone: what it has goes back. Returns how many.
  int64_t Lose(int worker);

  /// Where the next round begins.
  int64_t next() const { return next_; }
  int64_t num_returned() const { return static_cast<int64_t>(returned_.size()); }
  int64_t num_outstanding() const;
  int64_t num_confirmed() const { return confirmed_; }

  /// Between rounds.
  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const;
  void LoadState(const SafetensorsReader& reader, const std::string& prefix);
  /// Of a run of other ranks, whichever of them kept it: what came back. One worker alone may have kept none.
  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix);
  void Clear();

 private:
  void Remove(int worker, int64_t minibatch);
  int64_t next_ = 0;
  int64_t last_ = 0;
  int64_t confirmed_ = 0;                       // in all rounds
  std::set<int64_t> returned_;                  // to be handed out again
  std::vector<std::set<int64_t>> outstanding_;  // by worker
};

}  // namespace antiphon::parallel
