// The one thread of a process that talks to MPI, and the queues by which all others use it.
//
// MPI is initialised, used and finalised by this thread alone (MPI_THREAD_FUNNELED), so that any number of rank threads
// can send and receive, one-sided operations are served while the ranks compute, and no wait of a rank ever hangs in
// MPI: ranks wait at their hub, with deadlines. Messages are checked by their checksum; one that is damaged aborts the
// run. How often arrivals are looked for: comm/mpi/look_pace.h.
//
// Threads: all functions from any thread. Errors: PeerError for what MPI reports and for peers that do not answer.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/hub.h"
#include "comm/transport.h"

namespace antiphon::comm {

class MpiEngine : public Transport {
 public:
  struct Place {
    int process = 0;
    int num_processes = 1;
    int processes_on_host = 1;
    std::vector<std::string> hosts;  // per process
    std::string library;             // "Open MPI v4.1.4"
    bool pieces_help = false;        // long messages to other machines go in pieces
  };

  /// Initialises MPI; throws UsageError if the processes' programs differ.
  explicit MpiEngine(std::string_view version);
  /// Finalises MPI if `succeeded` was called last; otherwise leaves it, as waiting for dead processes has no end.
  ~MpiEngine() override;

  Place place() const;

  void Send(const Envelope& envelope, std::span<const std::byte> bytes) override;
  void Waiting(int change) override;
  void Drain(double seconds) override;
  /// MPI has fault tolerance, and mpirun was asked for it.
  bool survives_losses() const override;

  /// A new world of ranks, in which process p has ranks [FirstRankOf(p), FirstRankOf(p + 1)). Collective: all processes
  /// open the same worlds in the same order.
  std::shared_ptr<Hub> OpenWorld(int world_size);
  void CloseWorld();

  /// True if all processes give true and none died meanwhile. Collective; only where losses are survived.
  bool Agree(bool value);
  /// Continues without those that died; returns their number. Collective.
  int Shrink();

  void Succeeded();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with the thread, which outlives this object if MPI never returns
};

}  // namespace antiphon::comm
