#include "base/compute_threads.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "base/try_thread.h"

namespace antiphon {
namespace {

// Longer than the gaps between two products of a training step, far shorter than a scheduler's time slice.
constexpr std::chrono::microseconds kLook{40};

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Looks for some time, then sleeps, until `value` is no longer `old`; returns what it is then.
uint32_t AwaitChange(const std::atomic<uint32_t>& value, uint32_t old) {
  constexpr int kPausesPerClock = 32;
  const auto end = std::chrono::steady_clock::now() + kLook;
  do {
    for (int i = 0; i < kPausesPerClock; ++i) {
      const uint32_t now = value.load(std::memory_order_acquire);
      if (now != old) return now;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

thread_local bool within_piece = false;

// A caller's helpers, and the one job that they share with it.
//
// The gate says which job is open and how many helpers have entered it. A helper that comes late finds it closed, so
// that nobody waits for a thread that has not even begun.
class Crew {
 public:
  Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() {
    ending_ = true;
    Open(0);
    for (std::thread& helper : helpers_) {
      // After a fork the threads are the parent's.
      if (process_ == getpid()) {
        helper.join();
      } else {
        helper.detach();
      }
    }
  }

  void Run(int64_t count, internal::PieceFunction function, void* body, int threads) {
    while (static_cast<int>(helpers_.size()) < threads - 1 && TryThread(helpers_, [this] { Help(); })) {
    }
    count_ = count;
    function_ = function;
    body_ = body;
    next_.store(0, std::memory_order_relaxed);
    left_.store(0, std::memory_order_relaxed);
    first_failed_ = count;
    failure_ = nullptr;
    Open(static_cast<uint64_t>(threads - 1));
    Work(0);
    const auto entered = static_cast<uint32_t>(gate_.fetch_or(kClosed, std::memory_order_acq_rel) & kEntered);
    for (uint32_t left = left_.load(std::memory_order_acquire); left != entered;) left = AwaitChange(left_, left);
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  // Bits of the gate: job, closed, places for helpers, helpers that have entered.
  static constexpr uint64_t kEntered = (1 << 15) - 1, kPlacesShift = 16, kPlaces = ((1 << 15) - 1) << kPlacesShift;
  static constexpr uint64_t kClosed = uint64_t{1} << 15;
  static constexpr int kJobShift = 32;

  void Open(uint64_t places) {
    const uint32_t job = job_.load(std::memory_order_relaxed) + 1;
    gate_.store(uint64_t{job} << kJobShift | places << kPlacesShift, std::memory_order_release);
    job_.store(job, std::memory_order_seq_cst);
    job_.notify_all();
  }

  // The helper's number, from 1, or 0 if the job is closed or full.
  int Enter(uint32_t job) {
    uint64_t gate = gate_.load(std::memory_order_acquire);
    while (gate >> kJobShift == job && (gate & kClosed) == 0 && (gate & kEntered) < (gate & kPlaces) >> kPlacesShift) {
      if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) {
        return static_cast<int>(gate & kEntered) + 1;
      }
    }
    return 0;
  }

  void Help() {
    within_piece = true;
    uint32_t job = 0;
    for (;;) {
      job = AwaitChange(job_, job);
      if (ending_) return;
      const int thread = Enter(job);
      if (thread == 0) continue;
      Work(thread);
      left_.fetch_add(1, std::memory_order_release);
      left_.notify_one();
    }
  }

  void Work(int thread) {
    const bool before = std::exchange(within_piece, true);
    for (int64_t i = next_.fetch_add(1, std::memory_order_relaxed); i < count_;
         i = next_.fetch_add(1, std::memory_order_relaxed)) {
      try {
        function_(body_, i, thread);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (i < first_failed_) {
          first_failed_ = i;
          failure_ = std::current_exception();
        }
        next_.store(count_, std::memory_order_relaxed);
      }
    }
    within_piece = before;
  }

  alignas(64) std::atomic<uint32_t> job_{0};
  alignas(64) std::atomic<uint64_t> gate_{kClosed};
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<uint32_t> left_{0};
  std::atomic<bool> ending_{false};
  int64_t count_ = 0;
  internal::PieceFunction function_ = nullptr;
  void* body_ = nullptr;
  std::mutex mutex_;
  int64_t first_failed_ = 0;
  std::exception_ptr failure_;
  const pid_t process_ = getpid();
  std::vector<std::thread> helpers_;
};

int DefaultThreads() {
  static const int threads = [] {
    const char* wanted = std::getenv("OMP_NUM_THREADS");
    const int number = wanted == nullptr ? 0 : std::atoi(wanted);
    return number > 0 ? number : NumCores();
  }();
  return threads;
}

thread_local int threads_of_caller = 0;  // 0: not set
thread_local std::unique_ptr<Crew> crew_of_caller;

}  // namespace

int ComputeThreads() {
  if (within_piece) return 1;
  return threads_of_caller > 0 ? threads_of_caller : DefaultThreads();
}

void SetComputeThreads(int threads) { threads_of_caller = std::max(1, threads); }

ComputeThreadsScope::ComputeThreadsScope(int threads) : before_(threads_of_caller) { SetComputeThreads(threads); }
ComputeThreadsScope::~ComputeThreadsScope() { threads_of_caller = before_; }

namespace internal {

void RunPieces(int64_t count, PieceFunction function, void* body) {
  constexpr int64_t kMostThreads = 1 << 14;
  const auto threads = static_cast<int>(std::min({int64_t{ComputeThreads()}, count, kMostThreads}));
  if (threads <= 1) {
    for (int64_t i = 0; i < count; ++i) function(body, i, 0);
    return;
  }
  if (crew_of_caller == nullptr) crew_of_caller = std::make_unique<Crew>();
  crew_of_caller->Run(count, function, body, threads);
}

}  // namespace internal
}  // namespace antiphon
