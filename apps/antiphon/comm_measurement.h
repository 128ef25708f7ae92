// What ranks measure of the links and memories between them, and the cluster that this describes.
//
// All functions are collective: every rank calls them alike, on whatever carries the ranks, simulated clusters too.
// Of each repeated measurement the value below which a quarter lie counts: what else the machines do only adds.
#pragma once

#include "comm/cluster.h"
#include "comm/communicator.h"

namespace antiphon::app {

struct CommMeasurementOptions {
  double megabytes = 16;
  int repeats = 15;
};

struct MeasuredLink {
  double latency_seconds = 0;
  double message_seconds = 0;    // one way, on the whole
  double send_seconds = 0;       // of it, until the sender could go on
  double both_ways_seconds = 0;  // when both ranks send at once
  double both_send_seconds = 0;  // of it, until the senders could go on
};

struct MeasuredComm {
  int ranks_per_node = 1;  // of the first machine
  MeasuredLink inside;     // of ranks 0 and 1, if they share a machine and others stand elsewhere
  MeasuredLink between;    // of the first and the last rank
  double sum_seconds = 0;  // Communicator::AllReduce
  double two_stage_seconds = 0;
  double broadcast_seconds = 0;  // from rank 0
};

MeasuredComm MeasureComm(comm::Communicator& comm, const CommMeasurementOptions& options);

/// 10^9 bytes per second that every rank copies and adds while all do.
struct MeasuredMemory {
  double copy_gb_s = 0;
  double add_gb_s = 0;
};
MeasuredMemory MeasureMemory(comm::Communicator& comm, const CommMeasurementOptions& options);

/// The cluster on which a simulation of MeasureComm would take what was measured, but for the sums.
comm::ClusterOptions ClusterLike(const MeasuredComm& measured, const MeasuredMemory& memory, double megabytes);

}  // namespace antiphon::app
