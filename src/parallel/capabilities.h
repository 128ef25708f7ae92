// What a strategy may be able to do beyond the steps that every strategy takes (parallel/strategy.h).
//
// A strategy that can do it derives from the interface and returns `this` from the function of Strategy that asks for
// it; who finds null there goes on without. Threads, errors: as Strategy.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "math/matrix.h"
#include "math/safetensors.h"
#include "nn/exec_context.h"
#include "nn/workspace.h"
#include "parallel/loss_of_ranks.h"

namespace antiphon::parallel {

/// What of a checkpoint all ranks would write alike, bit by bit.
struct CommonState {
  bool values = false;               // the network's values, as they are now
  bool values_always = false;        // they are so after every step: what is made of them (an average) is common, too
  bool optimizer = false;            // all that the optimiser keeps
  std::vector<std::string> tensors;  // of SaveState, without the prefix
};

/// How many steps of each of `workers` lead as far into the run as `steps` of each of `workers_then` did.
inline int64_t StepsAsFar(int64_t steps, size_t workers_then, int workers) {
  return std::llround(static_cast<double>(steps) * static_cast<double>(workers_then) / workers);
}

/// Keeps something beside network and optimiser that a bit-identical continuation needs.
class Checkpointable {
 public:
  /// What SaveState needs of other ranks is fetched here, where all stand still. Collective.
  virtual void BeforeSave() {}
  /// Names start with `prefix`.
  virtual void SaveState(SafetensorsWriter& writer, const std::string& prefix) const = 0;
  virtual void LoadState(const SafetensorsReader& reader, const std::string& prefix) = 0;
  /// Whether the replica of a rank that saved such state is one to go on from; false: it was left out, and waited for
  /// the next exchange to replace it.
  virtual bool IsUsable(const SafetensorsReader& /*rank*/, const std::string& /*prefix*/) const { return true; }
  /// Continues what other than world_size() ranks saved, one reader per rank of then; the network holds their mean.
  /// What goes by the run's progress counts steps of the ranks of now.
  virtual void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) {
    LoadState(ranks[0], prefix);
  }
  /// What rank 0 may save for all, between two steps and after BeforeSave; the same answer on all ranks. Where ranks
  /// hold one replica together, nothing.
  virtual CommonState common_state() const { return {}; }

 protected:
  ~Checkpointable() = default;
};

/// Workers take the next minibatch of a common order when they are free, each minibatch going to one worker only, in
/// rounds. BeginRound and EndRound are collective.
class TakesWhenFree {
 public:
  /// Minibatches [first, last) of the current epoch's order are to be trained on.
  virtual void BeginRound(int64_t first, int64_t last) = 0;
  /// The next minibatch for this worker; nullopt when there is none left in the round.
  virtual std::optional<int64_t> Take() = 0;
  /// Nobody takes any more in this round.
  virtual void StopRound() = 0;
  /// Waits until all workers are through; returns where the next round begins, and how many minibatches came back
  /// (dropped or lost) and are left for it.
  virtual std::pair<int64_t, int64_t> EndRound() = 0;

 protected:
  ~TakesWhenFree() = default;
};

/// Ranks hold one replica together, each its part (model_parts.h).
class DividesTheModel {
 public:
  /// As Strategy::Forward. The ranks of a replica call it together; those that do not get the logits return an empty
  /// view.
  virtual MatrixView Logits(const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& ws) = 0;
  /// As Strategy::MeanOverReplicas, of this rank's part.
  virtual void MeanOfParts(std::span<float> values) = 0;
  /// Each rank of a replica carries the states of its own streams, not of all: another number of ranks cannot go on
  /// with them.
  virtual bool divides_streams() const { return false; }

 protected:
  ~DividesTheModel() = default;
};

/// Goes on when ranks are lost: what it exchanges from Start on, it exchanges in its communicator's Together, or goes
/// on without lost ranks itself.
class SurvivesLosses {
 public:
  /// With the ranks that there are now.
  virtual bool survives_losses() const { return true; }
  /// Steps of each worker that are lost with it, as they are not in the others' model yet; for workers in step.
  virtual int64_t steps_at_risk() const = 0;
  /// The communicator has renumbered the ranks that are left. Returns, on rank 0, how many minibatches came back to the
  /// common order; for workers that take when free. PeerLost on all ranks if it cannot go on.
  virtual int64_t AfterLoss(const Loss& loss) = 0;

 protected:
  ~SurvivesLosses() = default;
};

}  // namespace antiphon::parallel
