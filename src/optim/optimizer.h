// Turns gradients into steps: what a trainer drives once per minibatch.
//
//   optimizer.BeginStep(learning_rate);
//   network.Backward(ctx, derivative, ws, optimizer);
//   const StepReport report = optimizer.EndStep();
//
// Units: learning rates are per frame-averaged gradient (algorithms' convention; Kaldi's summed rate times the
// minibatch size).
// Threads: one optimizer per training thread.
// Determinism: same gradients, same bits.
// Errors: UsageError for its options; InputError when a stored state does not fit.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/registry.h"
#include "math/safetensors.h"
#include "nn/gradient_sink.h"
#include "nn/network.h"

namespace antiphon::optim {

struct StepReport {
  /// Frobenius norm of the whole change; negative if the method does not know it (fused update).
  double change_norm = -1;
  /// Factor by which max-change shortened the step (1: not at all); 0: the step was skipped, being infinite or not a
  /// number.
  double max_change_scale = 1;
};

/// What an optimiser steps: all values of a network, or the rows of each parameter that one of several ranks keeps, in
/// parameters of their own whose offsets count the rank's values alone (parallel/value_share.h).
struct SteppedValues {
  SteppedValues(nn::Network& all)  // NOLINT(google-explicit-constructor): a network stands for all that it has
      : network(all), parameters(all.parameters()), num_values(all.num_values()) {}
  nn::Network& network;
  std::span<nn::Parameter* const> parameters;
  size_t num_values;
  /// Sums over the ranks that step the other rows, with the same bits on all; empty: there are none. Collective.
  std::function<void(std::span<double>)> sum_over_ranks;
};

class Optimizer : public nn::GradientSink {
 public:
  virtual void BeginStep(double learning_rate) = 0;
  virtual StepReport EndStep() = 0;

  /// Everything that a bit-identical continuation needs; tensor names start with `prefix`. The state stays as it is
  /// until the writer has written.
  virtual void SaveState(SafetensorsWriter& writer, const std::string& prefix) const = 0;
  virtual void LoadState(const SafetensorsReader& reader, const std::string& prefix) = 0;
  /// Tensors of its state, without the prefix, that hold one number per value, laid out as the values.
  virtual std::vector<std::string> state_of_values() const { return {}; }
  /// Forgets everything (after falling back to an older model).
  virtual void ResetState() = 0;
  /// Forgets the running step alone, whose direction belongs to other parameters (after exchanging them).
  virtual void ResetMomentum() { ResetState(); }
  /// Bytes of memory that it keeps beside the network, as far as their number does not depend on the minibatch.
  virtual size_t state_bytes() const = 0;
  /// Weight of the last step's direction; 0: none.
  virtual double momentum() const { return 0; }
  /// True if it works on gradients' factors: sums of gradients (TakeAll) would lose what it is there for.
  virtual bool needs_factors() const { return false; }

  /// Of one that works on factors: hands what it made of them to `sink` instead of its own step; null: to its step.
  virtual void PassFactorsTo(nn::GradientSink* sink) { (void)sink; }
  /// From now on the limit of a whole step (max-change) is this share of what the options say.
  virtual void ShareMaxChange(double share) { (void)share; }

  /// Feeds gradients laid out as network.values(), as if a backward pass had produced them.
  void TakeAll(nn::Network& network, std::span<const float> gradient);
};

/// From an `[optimizer]` table: key `type` ("sgd", …), the others as the method says. The network's shape must not
/// change afterwards.
std::unique_ptr<Optimizer> MakeOptimizer(const Config& config, const SteppedValues& values);

using OptimizerRegistry = Registry<Optimizer, const Config&, const SteppedValues&>;

}  // namespace antiphon::optim
