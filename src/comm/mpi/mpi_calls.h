// The calls of MPI itself, on one thread. Internal to comm/mpi.
//
// Built against the Open MPI found by CMake; Open MPI 5 has the same binary interface, so that the same program runs
// with either (whichever mpirun and libmpi.so.40 are in use), and what only Open MPI 5 has (surviving lost processes)
// is looked up when the program runs.
// Which messages go in pieces: comm/mpi/piece_rule.h.
#pragma once

#define OMPI_SKIP_MPICXX 1  // MPI's own C++ interface is gone since MPI 3
#include <mpi.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi/mpi_engine.h"

namespace antiphon::comm {

class MpiCalls {
 public:
  MpiCalls();
  MpiCalls(const MpiCalls&) = delete;

  MpiEngine::Place place() const { return place_; }
  bool survives_losses() const { return fault_tolerance_; }
  void CheckSameProgram(const std::string& version);

  void StartSend(int process, std::vector<std::byte> message);
  /// Number of sends that are done now.
  size_t FinishSends();
  /// Gives whole messages in the order in which each process sent them; false if none came.
  bool Receive(const std::function<void(int from, std::vector<std::byte> message)>& give);

  /// Looks, every now and then, for processes that died.
  bool LossesChanged();
  std::vector<int> LostProcesses() const { return lost_; }
  bool Agree(bool value);
  int Shrink();

  /// Waits for all processes.
  void Finalize();

 private:
  struct Transfer {
    std::vector<std::byte> message;
    std::vector<MPI_Request> requests;  // of its pieces, in their order
    size_t finished = 0;                // of these
    std::unique_ptr<uint64_t> head;     // units of a message that goes in pieces; MPI reads it in its place
    bool broken = false;                // not all of its pieces could be begun
  };
  void Adopt(MPI_Comm comm);
  bool Check(int code, const char* call);
  bool SameMachine(int process) const;
  bool StartReceives();
  bool MoveOn(Transfer& transfer, bool& failed);

  MpiEngine::Place place_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  bool fault_tolerance_ = false;
  bool left_out_ = false;  // some processes died, and the others went on
  std::deque<Transfer> sends_;
  std::vector<std::deque<Transfer>> receives_;  // per process, in the order sent
  std::vector<std::deque<Transfer>> abandoned_;
  std::vector<int> lost_;
  double next_look_ = 0;
};

}  // namespace antiphon::comm
