// One shard of the model on a parameter server: values, version, and the server's own update rule.
//
// A shard belongs to one thread, so that updates need no locks; whoever pushes sends a message to that thread. Rules:
// "sum" adds the change that a worker made to its copy; "momentum" (v ← μ·v + g, w ← w − ε·v) and "adagrad" (s ← s +
// g², w ← w − ε·g/(√s + 10⁻⁸)) take the summed gradient g and its rate ε. Units: version counts the pushes applied.
// Cost: one pass over the shard and the push. Source: Dean et al., NIPS 2012 (Downpour SGD, Adagrad); algorithms
// reference 1.7.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "math/safetensors.h"

namespace antiphon::parallel {

enum class ServerRule { kSum, kMomentum, kAdagrad };

/// "sum", "momentum", "adagrad"; UsageError otherwise.
ServerRule ParseServerRule(const std::string& name);

class ParameterShard {
 public:
  ParameterShard() = default;
  ParameterShard(ServerRule rule, double momentum, std::span<const float> initial);

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
  ServerRule rule_ = ServerRule::kSum;
  float momentum_ = 0;
  std::vector<float> values_;
  std::vector<float> memory_;  // momentum, or sums of squares
  int64_t version_ = 0;
};

}  // namespace antiphon::parallel
