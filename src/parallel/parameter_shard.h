// One shard of the model on a parameter server: values, version, and the server's own update rule.
//
// A shard belongs to one thread, so that updates need no locks; whoever pushes sends a message to that thread. Rules:
// "sum" adds the change that a worker made to its copy; "momentum" (v ← μ·v + g, w ← w − ε·v) and "adagrad" (s ← s +
// g², w ← w − ε·g/(√s + 10⁻⁸)) take the summed gradient g and its rate ε, which each layer multiplies by its own
// factor. Units: version counts the pushes applied. Cost: one pass over the shard and the push. Source: Dean et al.,
// NIPS 2012 (Downpour SGD, Adagrad); algorithms reference 1.7.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "math/safetensors.h"

namespace antiphon::parallel {

enum class ServerRule { kSum, kMomentum, kAdagrad };

/// "sum", "momentum", "adagrad"; UsageError otherwise.
ServerRule ParseServerRule(const std::string& name);

/// Values from where the range before ends learn at `factor` times the rate of a push.
struct RateRange {
  size_t end = 0;
  float factor = 1;
};

class ParameterShard {
 public:
  ParameterShard() = default;
  /// `rates`: of the shard's values, in order, for the servers' own rules; empty: all learn at the rate of the push.
  ParameterShard(ServerRule rule, double momentum, std::span<const float> initial, std::vector<RateRange> rates = {});

  /// `push` is a change (kSum) or a gradient, as long as the shard.
  void Apply(std::span<const float> push, double learning_rate);
  std::span<const float> values() const { return values_; }
  int64_t version() const { return version_; }
  size_t size() const { return values_.size(); }
  void SetValues(std::span<const float> values);
  /// Forgets momentum and sums of squares.
  void ResetState();

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const;
  void LoadState(const SafetensorsReader& reader, const std::string& prefix);

 private:
  void ApplyRule(const RateRange& range, size_t begin, std::span<const float> gradient, double learning_rate);

  ServerRule rule_ = ServerRule::kSum;
  float momentum_ = 0;
  std::vector<RateRange> rates_;
  std::vector<float> values_;
  std::vector<float> memory_;  // momentum, or sums of squares
  int64_t version_ = 0;
};

}  // namespace antiphon::parallel
