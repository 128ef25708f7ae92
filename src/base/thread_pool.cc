#include "base/thread_pool.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace antiphon {

int NumCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

void ParallelFor(size_t count, int num_threads, const std::function<void(size_t)>& body) {
  if (num_threads <= 0) num_threads = NumCores();
  const size_t workers = std::min(count, static_cast<size_t>(num_threads));
  std::atomic<size_t> next{0};
  std::mutex mutex;
  size_t first_failed = count;
  std::exception_ptr failure;
  auto work = [&] {
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
  if (workers <= 1) {
    work();
  } else {
    std::vector<std::thread> threads;
    for (size_t t = 0; t < workers; ++t) {
      threads.emplace_back([&] {
        omp_set_num_threads(1);
        work();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace antiphon
