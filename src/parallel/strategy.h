// How the replicas of a model learn together: who computes what on which minibatch, and what is exchanged when.
//
// A trainer drives one Strategy per worker:
//
//   strategy.Start();
//   per minibatch: strategy.Step(minibatch)        default: BeginStep, forward, loss, backward with AfterLayerBackward,
//   AfterStep strategy.Drain(); strategy.AfterEpoch(); … strategy.Finish();
//
// Which minibatches a worker reads: share `data_share().index` of `count` of them, in lockstep with the others; ranks
// that hold one replica together (a pipeline's stages) read the same share. Or, if there are `rounds()`, whichever Take
// gives it next, each minibatch going to one worker only.
//
// The default of every hook trains alone, by the optimiser. A strategy overrides those that it needs: exchanging
// gradients redirects the sink in BeginStep and applies the sum in AfterStep; averaging works in AfterStep on
// network.values(); a pipeline, whose passes of several minibatches overlap, overrides Step itself. After AfterEpoch
// and Finish all replicas hold the model to evaluate, each rank its part of it (model_parts.h) where ranks hold a
// replica together. A minibatch may be empty: the last of an epoch, where the data do not divide. What only some
// strategies do stands in parallel/capabilities.h. A continuation calls Start, then state()->LoadState. A strategy is
// one file in parallel/strategies that ends with
//   REGISTER_COMPONENT(StrategyRegistry, "foo", [](const Config& c, const Replica& r) { return std::make_unique<Foo>(c,
//   r); });
//
// Units: learning rates per frame-averaged gradient of one worker's minibatch; the strategy derives what it needs and
// tells by Describe. Threads: one per worker. Errors: UsageError for impossible plans; PeerError from exchanges.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/registry.h"
#include "comm/communicator.h"
#include "nn/loss.h"
#include "nn/network.h"
#include "optim/optimizer.h"
#include "parallel/capabilities.h"
#include "parallel/model_parts.h"

namespace antiphon::parallel {

class ValueShare;

/// What a strategy may know of the run beforehand; 0: not known.
struct Plan {
  int minibatch_frames = 0;     // of one worker
  int64_t steps_per_epoch = 0;  // of one worker
  int64_t epochs = 0;
  bool chunks_stand_alone = false;  // recurrent states are not carried between minibatches
};

/// What one worker holds. All of it outlives the strategy.
struct Replica {
  nn::Network* network = nullptr;
  optim::Optimizer* optimizer = nullptr;
  comm::Communicator* comm = nullptr;
  Plan plan = {};
  /// If ranks hold one replica together: `network` is this rank's part. Null: it is the whole.
  const ModelParts* parts = nullptr;
  /// The criterion of sequence training; null: training by frames.
  nn::SequenceLoss* sequence = nullptr;
  /// If the optimiser steps this rank's rows alone; null: everything (value_share.h).
  const ValueShare* share = nullptr;
};

/// Minibatches index, index + count, … of an epoch, which `readers` ranks read together.
struct DataShare {
  int index = 0;
  int count = 1;
  int readers = 1;
};

/// One minibatch as the strategy sees it.
struct StepInput {
  nn::ExecContext context;
  ConstMatrixView features;
  nn::LossTargets targets;
  double learning_rate = 0;
  int64_t minibatch = -1;    // in the epoch's order, for workers that take when free
  double step_fullness = 1;  // frames of all workers in this step, by those of whole minibatches
};

/// A minibatch that has `fullness` times the frames of a whole one: its frames count as those of whole ones do, in
/// gradients that are not averaged over all workers' frames.
void CountAlike(double fullness, StepInput& input);

struct StepOutput {
  nn::LossResult loss;
  optim::StepReport report;
  double communication_seconds = 0;
  double staleness = 0;  // updates of the model that the gradient did not know
};

class Strategy {
 public:
  explicit Strategy(const Replica& replica) : replica_(replica) {}
  virtual ~Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  /// Called once before the first step of a run or of its continuation; brings all replicas to rank 0's values.
  virtual void Start();
  /// All ranks take the same number of steps, so that the trainer may let them agree on something between two of them.
  virtual bool synchronous() const { return true; }
  /// One minibatch; the workspace keeps its memory from step to step.
  virtual StepOutput Step(const StepInput& input);
  /// Called by the default Step; the gradients of a backward pass go where BeginStep says.
  virtual nn::GradientSink& BeginStep(const StepInput& input);
  virtual void AfterLayerBackward(size_t layer) { (void)layer; }
  virtual optim::StepReport AfterStep(const StepInput& input);
  /// Finishes what is in flight (called before AfterEpoch); what the steps have not reported yet.
  virtual std::vector<StepOutput> Drain() { return {}; }
  virtual void AfterEpoch() {}
  virtual void Finish() {}
  /// Seconds spent exchanging that no step has reported yet: those of AfterEpoch.
  double TakeCommunication() { return std::exchange(communication_seconds_, 0.0); }

  /// The ranks whose index is below `count` get minibatches, the others empty ones. May change between two steps, on
  /// all ranks alike.
  virtual DataShare data_share() const { return {comm().rank(), comm().world_size()}; }

  // What not every strategy can do; null where it cannot.
  /// Serial training keeps nothing.
  virtual Checkpointable* state() { return nullptr; }
  /// While the workers take minibatches when they are free; may change at an epoch's end.
  virtual TakesWhenFree* rounds() { return nullptr; }
  virtual DividesTheModel* division() { return nullptr; }
  virtual SurvivesLosses* survival() { return nullptr; }

  /// Logits [N, out_dim] of the whole network for evaluation, in `ws`; division() says what differs with it.
  MatrixView Forward(const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& ws);
  /// `values`, laid out as network.values(), become their mean over the replicas. Collective.
  void MeanOverReplicas(std::span<float> values);

  /// The states that recurrent layers carry from this worker's last minibatch to its next one, if they do.
  void SaveStreams(SafetensorsWriter& writer, const std::string& name) const;
  void LoadStreams(const SafetensorsReader& reader, const std::string& name);
  /// They begin anew: what is carried is of another model.
  void ForgetStreams() { workspace_ = nn::Workspace(); }
  /// After falling back to an older model: forget what belonged to the newer one. Collective.
  virtual void ResetState() {}
  /// The trainer's guard found this replica's model unusable. True: the strategy leaves it out of the next exchange and
  /// gives it the others' model; false: all replicas have to fall back.
  virtual bool LeaveOut() { return false; }

  /// Bytes of what it holds of the model beside the network: gradients, other replicas' means, servers' shards.
  virtual size_t copy_bytes() const { return 0; }
  /// Minibatches whose activations it keeps at a time.
  virtual int minibatches_under_way() const { return 1; }

  /// Derived values for the log, one line each: "rate per worker 0.8 × 4 workers".
  virtual std::vector<std::string> Describe() const { return {}; }

 protected:
  nn::Network& network() const { return *replica_.network; }
  optim::Optimizer& optimizer() const { return *replica_.optimizer; }
  comm::Communicator& comm() const { return *replica_.comm; }
  const Plan& plan() const { return replica_.plan; }
  /// How the model is divided; only for strategies that do it.
  const ModelParts& RequireParts() const;
  nn::Workspace& workspace() { return workspace_; }
  /// Of the minibatch whose step is under way.
  const nn::LossResult& last_loss() const { return last_loss_; }
  /// Seconds, by the communicator's clock, that were spent exchanging and waiting; Step reports their sum.
  void AddCommunication(double seconds) { communication_seconds_ += seconds; }
  template <class Call>
  void Exchanging(const Call& call) {
    const double begin = comm().Now();
    call();
    AddCommunication(comm().Now() - begin);
  }
  /// Tell a simulated cluster that products were computed; free of cost elsewhere. The default Step calls them; who
  /// overrides Step does it, at the place where the time goes.
  void CountForward(int64_t frames) const { CountForward(0, network().num_layers(), frames); }
  /// Of layers first … last − 1.
  void CountForward(size_t first, size_t last, int64_t frames) const;
  void CountBackward(size_t layer, int64_t frames) const;

 private:
  Replica replica_;
  double communication_seconds_ = 0;
  nn::LossResult last_loss_;
  nn::Workspace workspace_;
};

using StrategyRegistry = Registry<Strategy, const Config&, const Replica&>;

/// From a `[parallel]` table: `method` names the strategy (default "serial"); the other keys are its own, but
/// `workers`.
std::unique_ptr<Strategy> MakeStrategy(const Config& config, const Replica& replica);

/// Reads a vector of a strategy's state; InputError unless it has as many values as `values`.
void LoadValues(const SafetensorsReader& reader, const std::string& name, std::span<float> values);
/// Σ of the frames' weights.
double FrameWeight(const StepInput& input);

/// Keys of the table that the trainer reads; strategies allow them.
extern const std::vector<std::string> kCommonStrategyKeys;

}  // namespace antiphon::parallel
