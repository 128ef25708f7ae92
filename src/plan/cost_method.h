// What `plan` and `simulate` know of a method of training: its schedule of work and messages, what a device must hold,
// what it costs in passes over the data, and which of its settings are worth trying.
//
// Each strategy registers one beside itself (parallel/strategies/NAME_cost.cc), under the name of its method:
//   REGISTER_COMPONENT(plan::CostMethodRegistry, "foo", [] { return std::make_unique<FooCost>(); });
// From then on it can be simulated, and is proposed by the planner if Variants gives it something to try.
// Threads: immutable. Errors: UsageError from Check and Play for plans that cannot be.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/registry.h"
#include "plan/cost_model.h"
#include "plan/schedules.h"

namespace antiphon::plan {

/// How many more passes than serial training a method needs, in words.
struct PassesRule {
  std::string key;  // under which a measured factor is given: "one-bit"
  std::string method;
  std::string rule;
  std::string source;
  std::string title;  // "synchronous SGD with codec one-bit"
};

class CostMethod {
 public:
  virtual ~CostMethod() = default;

  // How fast it goes.
  virtual Played Play(const Setting& setting) const = 0;
  /// Throws UsageError for a plan that cannot be, beyond what holds for all.
  virtual void Check(const CostPlan& plan) const { (void)plan; }
  /// How often a worker holds the model beside its weights, as Strategy::copy_bytes has it with default options.
  virtual double Copies(const CostNetwork& network, const CostPlan& plan) const = 0;
  /// Of the fullest device.
  virtual double MemoryBytes(const CostNetwork& network, const CostPlan& plan) const;
  /// Devices and servers.
  virtual int Ranks(const CostPlan& plan) const { return plan.workers; }

  // How well it learns.
  virtual std::vector<PassesRule> PassesRules() const { return {}; }
  /// The rule that holds for the plan; empty: none.
  virtual std::string PassesKey(const CostPlan& plan) const { return (void)plan, ""; }
  /// Factor on the passes of serial training, with several workers. By default as synchronous SGD of all workers.
  virtual double PassesFactor(const CostPlan& plan, const CostResult& result) const;
  /// Why the plan is too far from anything that is known to learn; empty if it is not.
  virtual std::string TooFar(const CostPlan& plan, const CostResult& result) const;

  // What to try.
  /// Settings worth trying, all but the number of workers, which WorkerCounts tells. `base` has what the request says.
  virtual std::vector<CostPlan> Variants(const CostPlan& base, int devices, double codec_gb_s) const;
  /// Of a method that has nothing to try: what it does when an experiment names no settings.
  virtual CostPlan Usual(CostPlan base) const { return base; }
  virtual std::vector<int> WorkerCounts(const CostPlan& plan, int devices) const;
  /// Ranks that work on the same minibatch.
  virtual int RanksPerReplica(const CostPlan& plan) const { return (void)plan, 1; }
  /// Whether models are exchanged once in plan.sync_period steps, of which an epoch needs some.
  virtual bool IsPeriodic() const { return false; }
  /// "ssgd, 1-bit".
  virtual std::string NameOf(const CostPlan& plan) const { return plan.method; }
  /// Plans of a lower place are simpler to keep an eye on, and preferred among equals.
  virtual int Effort(const CostPlan& plan) const { return (void)plan, 100; }
  /// Frames of a step of all workers: among equals the shorter one, which is surer to learn. 0: steps are a worker's
  /// own.
  virtual double CommonStep(const CostPlan& plan) const { return (void)plan, 0; }
  /// ", exchange every 40 steps": what tells the plan apart, behind its name and devices.
  virtual std::string Details(const CostNetwork& network, const CostPlan& plan) const;
  /// `method` of the experiment's table [parallel] that trains so; its other lines, beside workers and codec.
  virtual std::string Strategy(const CostPlan& plan) const { return plan.method; }
  virtual std::string Keys(const CostNetwork& network, const CostPlan& plan) const;
};

using CostMethodRegistry = Registry<CostMethod>;

/// Throws UsageError with the nearest name.
const CostMethod& MethodOf(const CostPlan& plan);

/// UsageError unless the workers form groups of plan.group.
void RequireGroups(const CostPlan& plan);
/// Bytes of one minibatch's activations and derivatives of all layers.
double ActivationBytes(const CostNetwork& network, const CostPlan& plan);
/// Frames of all workers in one step.
double StepFrames(const CostPlan& plan, int ranks_per_replica);
/// Extra passes that steps of so many frames cost: none up to 1024, 20 % per doubling beyond.
double LargeStepFactor(double step_frames);
/// "a step of 32768 frames, beyond 16384"; empty up to there.
std::string StepTooLarge(double step_frames, int minibatch);
/// log2(value / from), 0 below.
double Doublings(double value, double from);
/// Multiples of `unit`, doubling, and the largest up to `devices`; from 2 ranks on.
std::vector<int> MultiplesUpTo(int unit, int devices);

}  // namespace antiphon::plan
