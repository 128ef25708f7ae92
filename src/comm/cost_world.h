// Thousands of simulated ranks without arithmetic: only their schedules of work and messages, in one thread.
//
// A process is a coroutine on one rank with a clock of its own. Processes of one rank run side by side, as a device
// that computes while it sends; they share the rank's mailbox and links, but each Compute takes the device for itself.
//
//   Task Worker(CostProcess& me) {
//     co_await me.Compute(flops, frames);
//     co_await me.Send(next, kTag, bytes);
//     co_await me.Receive(previous, kTag);
//   }
//   CostWorld world(4096, cluster);
//   for (int r = 0; r < 4096; ++r) {
//     CostProcess& process = world.AddProcess(r);
//     world.Start(process, Worker(process));
//   }
//   world.Run();
//
// Messages go by the link model, work by the host model, in the order of virtual time, ties in the order of issue: a
// run repeats itself to the bit. Threads: one. Errors: InternalError if processes wait for each other for ever;
// whatever a process throws leaves Run; Cancelled if somebody asked to stop. Failures of hosts are not simulated here.
#pragma once

#include <coroutine>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/cluster.h"

namespace antiphon::comm {

/// What a coroutine returns: awaited, it runs to its end; handed to CostWorld::Start, it runs with the world.
class [[nodiscard]] Task {
 public:
  struct promise_type {  // NOLINT(readability-identifier-naming): the language says so
    std::coroutine_handle<> continuation;
    std::exception_ptr error;
    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> h) noexcept {
        return h.promise().continuation ? h.promise().continuation : std::noop_coroutine();
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) {
    handle_.promise().continuation = caller;
    return handle_;
  }
  void await_resume() const { RethrowError(); }

  std::coroutine_handle<> handle() const { return handle_; }
  bool done() const { return handle_.done(); }
  void RethrowError() const {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
  }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

class CostWorld;

class CostProcess {
 public:
  static constexpr int kAnySource = -1;

  CostProcess(CostWorld& world, int rank) : world_(world), rank_(rank) {}
  CostProcess(const CostProcess&) = delete;

  int rank() const { return rank_; }
  double now() const { return now_; }
  double compute_seconds() const { return compute_seconds_; }
  CostWorld& world() const { return world_; }

  struct Wait {
    CostProcess& me;
    double until;
    bool await_ready() const { return until <= me.now_; }
    void await_suspend(std::coroutine_handle<> h) { me.WakeAt(until, h); }
    void await_resume() const {}
  };
  struct Arrival {
    CostProcess& me;
    int source;
    int tag;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> h);
    /// The sender.
    int await_resume() const;
  };

  /// Work on the rank's device; waits while another process of the rank uses it.
  Wait Compute(double flops, double frames);
  /// The same for other work than training's; not among compute_seconds.
  Wait Occupy(double seconds);
  /// The same for work on what is exchanged (Communicator::Handled).
  Wait Handle(Handling what, double bytes, std::string_view codec = {}) {
    return Occupy(HandlingSeconds(what, bytes, codec));
  }
  double HandlingSeconds(Handling what, double bytes, std::string_view codec = {}) const;
  Wait Sleep(double seconds) { return {*this, now_ + seconds}; }
  /// Takes the sender's time per message and for its bytes.
  Wait Send(int destination, int tag, double bytes);
  /// To a process of the same rank, at once.
  void Signal(int tag);
  Arrival Receive(int source, int tag) { return {*this, source, tag}; }

 private:
  friend class CostWorld;
  void WakeAt(double seconds, std::coroutine_handle<> h);

  CostWorld& world_;
  int rank_;
  double now_ = 0;
  double compute_seconds_ = 0;
  std::coroutine_handle<> resume_;
  uint64_t ticket_ = 0;  // of the wake-up that counts
};

class CostWorld {
 public:
  CostWorld(int world_size, const ClusterOptions& cluster);

  int world_size() const { return static_cast<int>(device_free_.size()); }
  /// Lives as long as the world.
  CostProcess& AddProcess(int rank);
  /// A server may still wait when all others have ended.
  void Start(CostProcess& process, Task task, bool server = false);
  /// Until every process that is no server has ended.
  void Run();

  HostModel& hosts() { return hosts_; }
  LinkModel& links() { return links_; }
  double bytes_sent() const { return bytes_sent_; }
  int64_t messages() const { return messages_; }
  /// For exchanges that a schedule takes by their closed form.
  void CountBytes(double bytes) { bytes_sent_ += bytes; }

 private:
  friend class CostProcess;
  struct Letter {
    int source;
    double arrival;
  };
  struct Box {
    std::deque<Letter> letters;  // in the order of arrival
    CostProcess* waiting = nullptr;
    int source = 0;
  };
  struct Event {
    double seconds;
    int64_t number;
    CostProcess* process;
    uint64_t ticket;
    bool operator<(const Event& other) const {  // for a queue whose top is the earliest
      return std::pair(seconds, number) > std::pair(other.seconds, other.number);
    }
  };
  struct Program {
    Task task;
    bool server;
  };
  Box& BoxOf(int rank, int tag);
  static std::deque<Letter>::iterator Find(Box& box, int source);
  void Deliver(int source, int destination, int tag, double arrival);
  void Push(CostProcess& process, double seconds);

  HostModel hosts_;
  LinkModel links_;
  std::vector<double> device_free_;
  std::deque<CostProcess> processes_;
  std::vector<Program> programs_;
  std::unordered_map<uint64_t, Box> boxes_;
  std::priority_queue<Event> events_;
  int64_t issued_ = 0;
  int64_t messages_ = 0;
  double bytes_sent_ = 0;
};

}  // namespace antiphon::comm
