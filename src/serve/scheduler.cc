#include "serve/scheduler.h"

#include <algorithm>

#include "base/compute_threads.h"
#include "base/error.h"
#include "base/try_thread.h"
#include "serve/clock.h"

namespace antiphon::serve {

Scheduler::Scheduler(int threads) {
  for (int i = 0; i < threads && TryThread(threads_, [this] { Work(); }); ++i) {
  }
  if (threads > 0 && threads_.empty()) {
    throw IoError(
        "the system gives no thread to recognise with: raise the limit (ulimit -u, ulimit -v, the container's pids)");
  }
}

Scheduler::~Scheduler() { Stop(); }

void Scheduler::Submit(std::shared_ptr<Task> task, double due_s) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    waiting_.emplace(std::pair(due_s, next_++), std::move(task));
  }
  changed_.notify_one();
}

int Scheduler::num_waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(waiting_.size());
}

double Scheduler::delay_s() const {
  const std::lock_guard lock(mutex_);
  return waiting_.empty() ? 0.0 : std::max(0.0, NowSeconds() - waiting_.begin()->first.first);
}

void Scheduler::Stop() {
  decltype(waiting_) dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(waiting_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Scheduler::Work() {
  const ComputeThreadsScope alone(1);
  for (;;) {
    std::shared_ptr<Task> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopped_ || !waiting_.empty(); });
      if (stopped_) return;
      task = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    }
    task->Step();
  }
}

}  // namespace antiphon::serve
