// Cores for pieces of work that go on side by side and end at different times: who is left computes with those that the
// others no longer need.
//
//   CoreShares cores(num_threads);
//   ParallelInOrder<Text>(files.size(), num_threads, [&](size_t i) {
//     CoreShares::Part part(cores);
//     for (…) { part.Update(); … }         // sets the calling thread's ComputeThreads()
//   }, …);
//
// For work whose result does not depend on how many threads compute it (base/compute_threads.h).
// Threads: a CoreShares is for any; a Part for the one that made it.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>

#include "base/compute_threads.h"

namespace antiphon {

class CoreShares {
 public:
  /// At least 1.
  explicit CoreShares(int num_threads);

  class Part {
   public:
    explicit Part(CoreShares& cores);
    ~Part();
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    /// Computes from here on with its share: all parts that are there have as much, and those that began first one
    /// more where that leaves some over.
    void Update();

   private:
    CoreShares& cores_;
    int64_t number_;
    ComputeThreadsScope scope_;
  };

 private:
  int64_t Begin();
  void End(int64_t number);
  int ShareOf(int64_t number) const;

  int num_threads_;
  mutable std::mutex mutex_;
  int64_t next_ = 0;         // guarded by mutex_, as are
  std::set<int64_t> parts_;  // those that are there
};

}  // namespace antiphon
