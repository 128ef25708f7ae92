// How long a simulated device computes, and when it fails.
//
// Time of a piece of work = launch + FLOP / (FLOP/s), times the device's straggler factor, times a jitter drawn per
// piece. Draws depend on (seed, rank, how many pieces before) only, so that a simulation repeats itself to the bit.
// Threads: one rank's methods from one thread at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "base/random.h"
#include "comm/communicator.h"

namespace antiphon::comm {

/// Rates in 10^9 bytes of fp32 values per second; 0: at once.
struct CodecSpeed {
  double encode_gb_s = 0;
  double decode_gb_s = 0;
  template <class V>
  void Visit(V& v) {
    v("encode-gb-s", encode_gb_s, Range{0, 1e6}, "fp32 values that a rank encodes, 10^9 bytes per second; 0: at once");
    v("decode-gb-s", decode_gb_s, Range{0, 1e6}, "fp32 values that a rank decodes");
  }
};

struct CodecSpeeds {
  CodecSpeed fp32, bf16, fp16, int8, one_bit, top_k, threshold;
  template <class V>
  void Visit(V& v) {
    ForEach([&](const char* name, CodecSpeed& speed) { v.Group(name, speed); });
  }
  template <class F>
  void ForEach(const F& f) {
    f("fp32", fp32);
    f("bf16", bf16);
    f("fp16", fp16);
    f("int8", int8);
    f("one-bit", one_bit);
    f("top-k", top_k);
    f("threshold", threshold);
  }
  /// Of a codec that has none here: at once.
  CodecSpeed Of(std::string_view codec) const;
};

struct HostOptions {
  double gflops = 1000;
  double launch_us = 0;
  double half_speed_frames = 0;
  double memory_gb = 0;
  double memory_gb_s = 0;
  double send_gb_s = 0;
  double copy_gb_s = 0;
  double add_gb_s = 0;
  CodecSpeeds codecs;
  double jitter = 0;
  std::vector<int> straggler_ranks;
  double straggler_factor = 4;
  std::vector<int> failing_ranks;
  std::vector<double> failing_seconds;
  double mean_hours_to_failure = 0;
  int64_t seed = 1;
  template <class V>
  void Visit(V& v) {
    v("gflops", gflops, Range{1e-6, 1e9}, "speed of a device in training, in 10^9 operations per second");
    v("launch-us", launch_us, Range{0, 1e9}, "fixed time of each piece of work, such as one layer's products");
    v("half-speed-frames", half_speed_frames, Range{0, 1e6},
      "minibatch at which a device reaches half of gflops; 0: any minibatch runs at full speed");
    v("memory-gb", memory_gb, Range{0, 1e6}, "memory of a device in 10^9 bytes; 0: not looked at");
    v("memory-gb-s", memory_gb_s, Range{0, 1e6},
      "bandwidth at which a device adds what others accumulate in its memory; 0: at once");
    v("send-gb-s", send_gb_s, Range{0, 1e6}, "rate at which a rank hands its messages over, 10^9 bytes/s; 0: at once");
    v("copy-gb-s", copy_gb_s, Range{0, 1e6}, "rate at which it copies what it received to its place");
    v("add-gb-s", add_gb_s, Range{0, 1e6}, "rate at which it adds what it received");
    v.Group("codecs", codecs);
    v("jitter", jitter, Range{0, 2}, "standard deviation of the logarithm of each piece of work's time");
    v("straggler-ranks", straggler_ranks, Range{0, 1e9}, "ranks on slow devices");
    v("straggler-factor", straggler_factor, Range{1, 1e6}, "how many times slower those are");
    v("failing-ranks", failing_ranks, Range{0, 1e9}, "ranks that fail");
    v("failing-seconds", failing_seconds, Range{0, 1e12}, "when each of them fails");
    v("mean-hours-to-failure", mean_hours_to_failure, Range{0, 1e9},
      "of one device, for failures at random moments; 0: none");
    v("seed", seed, Range{0, 9e15}, "seed of jitter and random failures");
  }
};

class HostModel {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// UsageError for ranks outside the world and lists of unequal length.
  HostModel(const HostOptions& options, int world_size);

  /// Draws the time of the rank's next piece of work.
  double ComputeSeconds(int rank, double flops);
  /// For work that belongs to a minibatch: small ones leave a device partly idle (half_speed_frames).
  double ComputeSeconds(int rank, double flops, double frames);
  /// Work on exchanged values (Communicator::Handled); a straggler is slower at it too.
  double HandlingSeconds(int rank, Handling what, double bytes, std::string_view codec) const;
  /// What handing over a message takes of its sender, besides links.message-us.
  double SendSeconds(int rank, double bytes) const;
  /// Time to add `bytes` into memory: two reads and a write.
  double AccumulateSeconds(double bytes) const;
  /// kNever if it does not.
  double FailureSeconds(int rank) const { return failure_seconds_.at(static_cast<size_t>(rank)); }
  const HostOptions& options() const { return options_; }

 private:
  HostOptions options_;
  std::vector<double> factors_;
  std::vector<double> failure_seconds_;
  std::vector<Rng> jitter_;
};

}  // namespace antiphon::comm
