// What a pool of parameter servers is told, and what it tells (parallel/server_pool.h). Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/parameter_shard.h"

namespace antiphon::parallel {

struct ServerPoolOptions {
  int servers = 0;         // that hold shards; 0: all ranks
  bool dedicated = false;  // they are the last ranks, and no workers; else the first
  bool ahead = false;      // pulls by PullAhead
  ServerRule rule = ServerRule::kSum;
  double momentum = 0;
  std::vector<RateRange> rates;  // of the model's values, as ParameterShard takes them of its own
  int64_t max_staleness = -1;    // pushes that missed more others are dropped; −1: none
  int64_t staleness_bound = -1;  // of SSP; −1: none
  std::string log;               // file of the arrival order, ".rank-N" is appended; empty: none
  std::string replay;            // a log to follow
};

struct Verdict {
  bool apply = true;
  int64_t staleness = 0;  // pushes of others since the pull
};

struct ServerStatistics {
  int64_t pushes = 0;  // applied to this rank's shard
  int64_t stale = 0;   // sum over them of the shard's version minus that pulled
  int64_t stalest = 0;
  int64_t dropped = 0;  // of this worker
};

}  // namespace antiphon::parallel
