// One queue for the speech of all clients: the piece that is due first goes to the next free thread.
//
// A task is one client's speech. It is run by one thread at a time, a piece at a time, so that no client keeps a thread
// from the others for longer than a piece takes. Live speech is due when it comes in; a recording a little later
// (Hearing), so that it takes what live speech leaves, but does not starve.
//
// Threads: safe together; tasks run on the scheduler's own threads, which compute alone.
// Errors: IoError if there is not even one thread; fewer than asked for are logged. A task must not throw.
// Source: deadline order as in Liu, Layland, Scheduling algorithms for multiprogramming, JACM 1973.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace antiphon::serve {

class Task {
 public:
  virtual ~Task() = default;
  /// Does a piece of work.
  virtual void Step() = 0;
};

class Scheduler {
 public:
  explicit Scheduler(int threads);
  /// Waits for the pieces under way; what waits is dropped.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;

  /// One Step of the task, due at `due_s` (clock.h). The caller sees to it that a task waits or runs once at a time.
  void Submit(std::shared_ptr<Task> task, double due_s);

  int num_waiting() const;
  /// For how long what is due first has been due; 0: nothing waits for longer than it may.
  double delay_s() const;
  /// No more tasks are run; waits for those that are.
  void Stop();

 private:
  void Work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<double, uint64_t>, std::shared_ptr<Task>> waiting_;  // guarded by mutex_
  uint64_t next_ = 0;                                                     // guarded by mutex_
  bool stopped_ = false;                                                  // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace antiphon::serve
