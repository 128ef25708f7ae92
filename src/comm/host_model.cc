#include "comm/host_model.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace antiphon::comm {
namespace {

constexpr uint64_t kJitterSeed = 1;
constexpr uint64_t kFailureSeed = 2;

double SecondsAt(double gb_s, double bytes) { return gb_s > 0 ? bytes / (1e9 * gb_s) : 0; }

size_t CheckedRank(int rank, int world_size, const char* key) {
  if (rank < 0 || rank >= world_size) {
    Throw<UsageError>("cluster.host.{}: there is no rank {}, only 0 … {}", key, rank, world_size - 1);
  }
  return static_cast<size_t>(rank);
}

}  // namespace

CodecSpeed CodecSpeeds::Of(std::string_view codec) const {
  CodecSpeed found;
  CodecSpeeds all = *this;  // ForEach hands out what may be changed
  all.ForEach([&](std::string_view name, const CodecSpeed& speed) {
    if (name == codec) found = speed;
  });
  return found;
}

HostModel::HostModel(const HostOptions& options, int world_size)
    : options_(options),
      factors_(static_cast<size_t>(world_size), 1.0),
      failure_seconds_(static_cast<size_t>(world_size), kNever) {
  const auto seed = static_cast<uint64_t>(options.seed);
  for (const int rank : options.straggler_ranks) {
    factors_[CheckedRank(rank, world_size, "straggler-ranks")] = options.straggler_factor;
  }
  if (options.failing_ranks.size() != options.failing_seconds.size()) {
    Throw<UsageError>("cluster.host: {} failing-ranks, but {} failing-seconds: give one moment for each rank",
                      options.failing_ranks.size(), options.failing_seconds.size());
  }
  if (options.mean_hours_to_failure > 0) {
    for (size_t r = 0; r < failure_seconds_.size(); ++r) {
      Rng rng(MixSeed(seed, kFailureSeed), r);
      failure_seconds_[r] = -std::log1p(-rng.Uniform()) * 3600 * options.mean_hours_to_failure;
    }
  }
  for (size_t i = 0; i < options.failing_ranks.size(); ++i) {
    failure_seconds_[CheckedRank(options.failing_ranks[i], world_size, "failing-ranks")] = options.failing_seconds[i];
  }
  if (options.jitter > 0) {
    for (int r = 0; r < world_size; ++r) jitter_.emplace_back(MixSeed(seed, kJitterSeed), static_cast<uint64_t>(r));
  }
}

double HostModel::ComputeSeconds(int rank, double flops) {
  CHECK_GE(flops, 0);
  const auto r = static_cast<size_t>(rank);
  double seconds = (flops / (1e9 * options_.gflops) + 1e-6 * options_.launch_us) * factors_.at(r);
  // The mean stays what it would be without jitter.
  if (!jitter_.empty()) {
    seconds *= std::exp(options_.jitter * jitter_[r].Normal() - 0.5 * options_.jitter * options_.jitter);
  }
  return seconds;
}

double HostModel::ComputeSeconds(int rank, double flops, double frames) {
  const double idle = frames > 0 ? options_.half_speed_frames / frames : 0;
  return ComputeSeconds(rank, flops * (1 + idle));
}

double HostModel::HandlingSeconds(int rank, Handling what, double bytes, std::string_view codec) const {
  const auto rate = [&] {
    switch (what) {
      case Handling::kCopy:
        return options_.copy_gb_s;
      case Handling::kAdd:
        return options_.add_gb_s;
      case Handling::kEncode:
        return options_.codecs.Of(codec).encode_gb_s;
      default:
        return options_.codecs.Of(codec).decode_gb_s;
    }
  };
  return SecondsAt(rate(), bytes) * factors_.at(static_cast<size_t>(rank));
}

double HostModel::SendSeconds(int rank, double bytes) const {
  return SecondsAt(options_.send_gb_s, bytes) * factors_.at(static_cast<size_t>(rank));
}

double HostModel::AccumulateSeconds(double bytes) const { return SecondsAt(options_.memory_gb_s, 3 * bytes); }

}  // namespace antiphon::comm
