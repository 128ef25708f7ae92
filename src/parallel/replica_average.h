// The frame-weighted mean of all replicas of a model, without those that went astray.
//
// A replica is left out if it holds a value that is not finite, if its trainer's guard found it unusable, or if it
// moved more than `outlier-factor` times as far from the common starting point as the median replica (three or more
// workers). Bytes per rank: one AllReduce of the model and one AllGather of 24 bytes. Determinism: as the
// communicator's sums; with equal weights and a power of two of equal replicas the mean is the replica to the bit.
// Threads: one per rank. Errors: PeerError.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "comm/communicator.h"

namespace antiphon::parallel {

/// What the others know of a replica.
struct Standing {
  double weight = 0;    // frames learned since `start`, the common values at the last exchange; 0: it did not move
  double distance = 0;  // from `start`; NaN or infinite if one of the values is
  double usable = 1;    // 0 if its trainer's guard found that it is not
};

double DistanceBetween(std::span<const float> a, std::span<const float> b);
/// Of all ranks. Collective.
std::vector<Standing> GatherStandings(comm::Communicator& comm, const Standing& mine);

struct AverageReport {
  std::vector<int> left_out;  // ranks
  double frame_weight = 0;    // of all ranks that count
  bool hopeless = false;      // more than half of the replicas were unusable: the mean is not to be trusted

  bool LeavesOut(int rank) const { return std::find(left_out.begin(), left_out.end(), rank) != left_out.end(); }
};

/// Whose replica does not count; frame_weight stays 0.
AverageReport JudgeReplicas(const std::vector<Standing>& all, double outlier_factor);

/// Overwrites `values` with the mean. `frame_weight`: on how many frames this replica learned since `start`, the common
/// values of all; `usable`: what the guard says of this replica. Collective. If no rank saw a frame, all count the
/// same.
AverageReport AverageReplicas(comm::Communicator& comm, double frame_weight, bool usable, double outlier_factor,
                              std::span<const float> start, std::span<float> values);

}  // namespace antiphon::parallel
