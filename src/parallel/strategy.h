// How the replicas of a model learn together: who computes what on which minibatch, and what is exchanged when.
//
// A trainer drives one Strategy per worker:
//
//   strategy.Start();
//   per minibatch: strategy.Step(minibatch)        default: BeginStep, forward, loss, backward with AfterLayerBackward,
//   AfterStep strategy.AfterEpoch(); … strategy.Finish();
//
// The default of every hook trains alone, by the optimiser. A strategy overrides those that it needs: exchanging
// gradients redirects the sink in BeginStep and applies the sum in AfterStep; averaging works in AfterStep on
// network.values(); a pipeline, whose passes of several minibatches overlap, overrides Step itself. After AfterEpoch
// and Finish all replicas hold the model to evaluate. A strategy is one file in parallel/strategies that ends with
//   REGISTER_COMPONENT(StrategyRegistry, "foo", [](const Config& c, const Replica& r) { return std::make_unique<Foo>(c,
//   r); });
//
// Units: learning rates per frame-averaged gradient of one worker's minibatch; the strategy derives what it needs and
// tells by Describe. Threads: one per worker. Errors: UsageError for impossible plans; PeerError from exchanges.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/registry.h"
#include "comm/communicator.h"
#include "nn/loss.h"
#include "nn/network.h"
#include "optim/optimizer.h"

namespace antiphon::parallel {

/// What one worker holds. All of it outlives the strategy.
struct Replica {
  nn::Network* network = nullptr;
  optim::Optimizer* optimizer = nullptr;
  comm::Communicator* comm = nullptr;
};

/// One minibatch as the strategy sees it.
struct StepInput {
  nn::ExecContext context;
  ConstMatrixView features;
  nn::LossTargets targets;
  double learning_rate = 0;
};

struct StepOutput {
  nn::LossResult loss;
  optim::StepReport report;
  double communication_seconds = 0;
};

class Strategy {
 public:
  explicit Strategy(const Replica& replica) : replica_(replica) {}
  virtual ~Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  /// Called once before the first step of a run or of its continuation; brings all replicas to rank 0's values.
  virtual void Start();
  /// One minibatch; the workspace keeps its memory from step to step.
  virtual StepOutput Step(const StepInput& input);
  /// Called by the default Step; the gradients of a backward pass go where BeginStep says.
  virtual nn::GradientSink& BeginStep(const StepInput& input);
  virtual void AfterLayerBackward(size_t layer) { (void)layer; }
  virtual optim::StepReport AfterStep(const StepInput& input);
  virtual void AfterEpoch() {}
  virtual void Finish() {}

  /// Everything that a bit-identical continuation needs beyond network and optimiser; names start with `prefix`.
  virtual void SaveState(SafetensorsWriter& writer, const std::string& prefix) const;
  virtual void LoadState(const SafetensorsReader& reader, const std::string& prefix);
  /// After falling back to an older model: forget what belonged to the newer one.
  virtual void ResetState() {}

  /// Derived values for the log, one line each: "rate per worker 0.8 × 4 workers".
  virtual std::vector<std::string> Describe() const { return {}; }

 protected:
  nn::Network& network() const { return *replica_.network; }
  optim::Optimizer& optimizer() const { return *replica_.optimizer; }
  comm::Communicator& comm() const { return *replica_.comm; }
  nn::Workspace& workspace() { return workspace_; }

 private:
  Replica replica_;
  nn::Workspace workspace_;
};

using StrategyRegistry = Registry<Strategy, const Config&, const Replica&>;

/// From a `[parallel]` table: `method` names the strategy (default "serial"); the other keys are its own, but
/// `workers`.
std::unique_ptr<Strategy> MakeStrategy(const Config& config, const Replica& replica);

/// Keys of the table that the trainer reads; strategies allow them.
extern const std::vector<std::string> kCommonStrategyKeys;

}  // namespace antiphon::parallel
