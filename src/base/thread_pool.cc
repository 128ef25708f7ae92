#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "base/compute_threads.h"
#include "base/try_thread.h"

namespace antiphon {

namespace internal {

int CoresOfControlGroup(const std::filesystem::path& root, const std::string& group) {
  double least = 0;
  for (auto folder = std::filesystem::path(group).relative_path();; folder = folder.parent_path()) {
    std::ifstream file(root / folder / "cpu.max");
    double quota = 0, period = 0;
    // "max 100000" where there is no limit.
    if (file >> quota >> period && quota > 0 && period > 0) {
      const double cores = std::ceil(quota / period);
      least = least == 0 ? cores : std::min(least, cores);
    }
    if (folder.empty()) return static_cast<int>(least);
  }
}

}  // namespace internal

namespace {

int GrantedCores() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return internal::CoresOfControlGroup("/sys/fs/cgroup", line.substr(3));
  }
  return 0;
}

// Each with one thread of arithmetic.
std::vector<std::thread> StartWorkers(size_t count, const std::function<void()>& work) {
  return TryThreads(count, [&work] {
    SetComputeThreads(1);
    work();
  });
}

}  // namespace

int NumCores() {
  static const int granted = GrantedCores();
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof(set), &set) == 0
                        ? CPU_COUNT(&set)
                        : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, granted > 0 ? std::min(cores, granted) : cores);
}

void ParallelFor(size_t count, int num_threads, const std::function<void(size_t)>& body) {
  if (num_threads <= 0) num_threads = NumCores();
  const size_t workers = std::min(count, static_cast<size_t>(num_threads));
  std::atomic<size_t> next{0};
  std::mutex mutex;
  size_t first_failed = count;
  std::exception_ptr failure;
  const std::function<void()> work = [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < first_failed) {
          first_failed = i;
          failure = std::current_exception();
        }
        next.store(count);
      }
    }
  };
  std::vector<std::thread> threads;
  if (workers > 1) threads = StartWorkers(workers, work);
  if (threads.empty()) work();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

namespace internal {
namespace {

// What the workers and the consumer of RunInOrder share; all under `mutex`.
struct InOrderState {
  std::mutex mutex;
  std::condition_variable changed;
  size_t claimed = 0;   // next index to produce
  size_t consumed = 0;  // indices below it are done
  bool stop = false;
  std::vector<char> ready;                    // by slot
  std::vector<std::exception_ptr> exception;  // by slot
};

void ProduceInOrder(InOrderState& state, size_t count, const std::function<void(size_t, size_t)>& produce) {
  const size_t num_slots = state.ready.size();
  for (;;) {
    std::unique_lock lock(state.mutex);
    state.changed.wait(
        lock, [&] { return state.stop || state.claimed == count || state.claimed < state.consumed + num_slots; });
    if (state.stop || state.claimed == count) return;
    const size_t i = state.claimed++;
    lock.unlock();
    std::exception_ptr failure;
    try {
      produce(i, i % num_slots);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    state.exception[i % num_slots] = failure;
    state.ready[i % num_slots] = 1;
    state.changed.notify_all();
  }
}

void ConsumeInOrder(InOrderState& state, size_t count, const std::function<void(size_t, size_t)>& consume) {
  for (size_t i = 0; i < count; ++i) {
    const size_t slot = i % state.ready.size();
    std::unique_lock lock(state.mutex);
    state.changed.wait(lock, [&] { return state.ready[slot] != 0; });
    if (state.exception[slot]) std::rethrow_exception(state.exception[slot]);
    lock.unlock();
    consume(i, slot);
    lock.lock();
    state.ready[slot] = 0;
    state.consumed = i + 1;
    state.changed.notify_all();
  }
}

}  // namespace

void RunInOrder(size_t count, int num_threads, size_t num_slots, const std::function<void(size_t, size_t)>& produce,
                const std::function<void(size_t, size_t)>& consume) {
  const size_t workers = std::min(count, static_cast<size_t>(std::max(1, num_threads)));
  InOrderState state;
  state.ready.assign(num_slots, 0);
  state.exception.resize(num_slots);
  const std::function<void()> work = [&] { ProduceInOrder(state, count, produce); };
  std::vector<std::thread> threads;
  if (workers > 1) threads = StartWorkers(workers, work);
  if (threads.empty()) {
    for (size_t i = 0; i < count; ++i) {
      produce(i, i % num_slots);
      consume(i, i % num_slots);
    }
    return;
  }
  std::exception_ptr failure;
  try {
    ConsumeInOrder(state, count, consume);
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(state.mutex);
    state.stop = true;
  }
  state.changed.notify_all();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace internal
}  // namespace antiphon
