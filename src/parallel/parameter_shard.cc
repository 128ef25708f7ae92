#include "parallel/parameter_shard.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/update.h"

namespace antiphon::parallel {
namespace {

constexpr float kAdagradFloor = 1e-8f;

}  // namespace

ServerRule ParseServerRule(const std::string& name) {
  if (name == "sum") return ServerRule::kSum;
  if (name == "momentum") return ServerRule::kMomentum;
  if (name == "adagrad") return ServerRule::kAdagrad;
  Throw<UsageError>("expected sum, momentum or adagrad, found '{}'", name);
}

ParameterShard::ParameterShard(ServerRule rule, double momentum, std::span<const float> initial)
    : rule_(rule), momentum_(static_cast<float>(momentum)), values_(initial.begin(), initial.end()) {
  if (rule_ != ServerRule::kSum) memory_.assign(values_.size(), 0.0f);
}

void ParameterShard::Apply(std::span<const float> push, double learning_rate) {
  CHECK_EQ(push.size(), values_.size());
  const auto rate = static_cast<float>(learning_rate);
  float* w = values_.data();
  float* m = memory_.data();
  const float* g = push.data();
  const size_t size = push.size();
  switch (rule_) {
    case ServerRule::kSum:
      AddScaled(1.0f, ConstMatrixView(g, 1, std::ssize(push)), MatrixView(w, 1, std::ssize(push)));
      break;
    case ServerRule::kMomentum:
      MomentumStep({.rate = rate, .momentum = momentum_}, g, m, w, std::ssize(push));
      break;
    case ServerRule::kAdagrad:
      for (size_t i = 0; i < size; ++i) {
        m[i] += g[i] * g[i];
        w[i] -= rate * g[i] / (std::sqrt(m[i]) + kAdagradFloor);
      }
      break;
  }
  ++version_;
}

void ParameterShard::SetValues(std::span<const float> values) {
  CHECK_EQ(values.size(), values_.size());
  std::copy(values.begin(), values.end(), values_.begin());
}

void ParameterShard::ResetState() { std::fill(memory_.begin(), memory_.end(), 0.0f); }

void ParameterShard::SaveState(SafetensorsWriter& writer, const std::string& prefix) const {
  writer.Add(prefix + ".shard_version", std::span<const int64_t>(&version_, 1));
  if (!memory_.empty()) writer.Add(prefix + ".shard_memory", std::span<const float>(memory_));
}

void ParameterShard::LoadState(const SafetensorsReader& reader, const std::string& prefix) {
  version_ = reader.ReadInts(prefix + ".shard_version").at(0);
  if (!memory_.empty()) memory_ = reader.ReadFloats(prefix + ".shard_memory");
  CHECK(memory_.empty() || memory_.size() == values_.size());
}

}  // namespace antiphon::parallel
