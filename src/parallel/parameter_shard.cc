#include "parallel/parameter_shard.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

ParameterShard::ParameterShard(ServerRule rule, double momentum, std::span<const float> initial,
                               std::vector<RateRange> rates)
    : rule_(rule),
      momentum_(static_cast<float>(momentum)),
      rates_(std::move(rates)),
      values_(initial.begin(), initial.end()) {
  if (rule_ != ServerRule::kSum) memory_.assign(values_.size(), 0.0f);
  if (rates_.empty()) rates_.push_back({.end = values_.size()});
  CHECK_EQ(rates_.back().end, values_.size());
}

void ParameterShard::Apply(std::span<const float> push, double learning_rate) {
  CHECK_EQ(push.size(), values_.size());
  if (rule_ == ServerRule::kSum) {
    const auto size = std::ssize(push);
    AddScaled(1.0f, ConstMatrixView(push.data(), 1, size), MatrixView(values_.data(), 1, size));
  } else {
    size_t begin = 0;
    for (const RateRange& range : rates_) {
      ApplyRule(range, begin, push, learning_rate);
      begin = range.end;
    }
  }
  ++version_;
}

void ParameterShard::ApplyRule(const RateRange& range, size_t begin, std::span<const float> gradient,
                               double learning_rate) {
  const float rate = static_cast<float>(learning_rate) * range.factor;
  const size_t size = range.end - begin;
  float* w = values_.data() + begin;
  float* m = memory_.data() + begin;
  const float* g = gradient.data() + begin;
  if (rule_ == ServerRule::kMomentum) {
    MomentumStep({.rate = rate, .momentum = momentum_}, g, m, w, static_cast<int64_t>(size));
    return;
  }
  for (size_t i = 0; i < size; ++i) {
    m[i] += g[i] * g[i];
    w[i] -= rate * g[i] / (std::sqrt(m[i]) + kAdagradFloor);
  }
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
