// The ranks of one process: their mailboxes, windows and state, and the communicators that work on them.
//
// Ranks [first, first + count) of a world live here as threads; letters between them go through shared memory, those to
// other ranks through a Transport. Losing ranks: MarkLost wakes whoever waits for one of them (PeerLost), and what
// is sent to it is dropped. Threads: all functions may be called from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/shared_sum.h"
#include "comm/transport.h"

namespace antiphon::comm {

class Hub {
 public:
  struct Letter {
    int source = 0;
    int tag = 0;
    std::vector<std::byte> bytes;
  };

  /// `transport` may be null if all ranks live here; it outlives the hub.
  /// `nodes`: of each rank; empty: all on one. `machines`: their names, by rank, for errors; may be empty.
  Hub(int world_size, int first, int count, Transport* transport = nullptr, uint32_t world = 0,
      std::vector<int> nodes = {}, std::vector<std::string> machines = {});

  int world_size() const { return world_size_; }
  /// For ranks that all live here; a transport says so itself.
  void SurviveLosses() { survives_losses_ = true; }
  int Node(int rank) const { return nodes_.empty() ? 0 : nodes_[static_cast<size_t>(rank)]; }
  /// " on 'hostb'"; empty for ranks of this process and where machines have no names.
  std::string OnMachine(int rank) const;
  bool IsLocal(int rank) const { return rank >= first_ && rank < first_ + count_; }

  /// To a local rank.
  void Deliver(int destination, Letter letter);
  /// What a transport received from another process.
  void Arrived(const Envelope& envelope, std::vector<std::byte> bytes);
  void Abort(AbortReason reason);
  void MarkLost(int rank);

 private:
  friend class HubCommunicator;
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable arrived;
    std::deque<Letter> letters;  // guarded by mutex
    uint64_t delivered = 0;      // guarded by mutex: letters so far
  };
  Mailbox& BoxOf(int rank) { return *mailboxes_[static_cast<size_t>(rank - first_)]; }
  std::span<float> Window(int rank, int id, size_t offset, size_t size);
  void WakeAll();

  const int world_size_;
  const int first_;
  const int count_;
  Transport* const transport_;
  const uint32_t world_;
  const std::vector<int> nodes_;
  const std::vector<std::string> machines_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
  SharedSum shared_sum_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::span<float>> windows_;  // (rank, id); guarded by mutex_
  std::vector<std::vector<float>> left_behind_;              // of open windows; guarded by mutex_
  AbortReason abort_reason_;                                 // guarded by mutex_ until aborted_
  std::atomic<bool> aborted_ = false;
  bool survives_losses_ = false;
  std::vector<std::atomic<bool>> lost_;
  std::atomic<int> num_lost_ = 0;
};

/// The communicator of a local rank; keeps the hub alive. Once per rank.
std::unique_ptr<Communicator> ConnectToHub(std::shared_ptr<Hub> hub, int rank);

/// memory[i] += scale · values[i], each element atomically.
void AtomicAdd(std::span<float> memory, float scale, std::span<const float> values);
/// values[i] = memory[i], each element atomically.
void AtomicRead(std::span<float> memory, std::span<float> values);

}  // namespace antiphon::comm
