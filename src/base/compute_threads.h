// Threads that compute one product, one pass over a matrix or one loop together.
//
//   ParallelPieces(count, [&](int64_t piece, int thread) { … });
//
// Work is cut into pieces, and whoever is free takes the next one: a thread that other programs hold up keeps the
// others waiting for one piece at most. What a piece computes must depend on its index alone; `thread` (below
// ComputeThreads()) only names memory that no other thread uses meanwhile.
//
// Each calling thread has helpers of its own, started when it first needs them and ended with it. Between two calls
// they look for work for some ten microseconds, then sleep. OpenMP, and what the host program set there, is not
// touched. Threads: any; a call from within a piece runs on the calling thread alone. Errors: the exception of the
// first piece that failed, by index, is rethrown once all running pieces ended; pieces not yet started are skipped.
#pragma once

#include <cstdint>
#include <type_traits>

namespace antiphon {

/// How many threads the calling thread computes with, itself included: what was set, or NumCores(), or OMP_NUM_THREADS
/// where that is set. 1 within a piece.
int ComputeThreads();

/// For the calling thread; at least 1.
void SetComputeThreads(int threads);

/// Sets the calling thread's number and restores it.
class ComputeThreadsScope {
 public:
  explicit ComputeThreadsScope(int threads);
  ~ComputeThreadsScope();
  ComputeThreadsScope(const ComputeThreadsScope&) = delete;
  ComputeThreadsScope& operator=(const ComputeThreadsScope&) = delete;

 private:
  int before_;
};

namespace internal {
using PieceFunction = void (*)(void* body, int64_t piece, int thread);
void RunPieces(int64_t count, PieceFunction function, void* body);
}  // namespace internal

/// Calls body(piece, thread) for all pieces in [0, count), in order of their index as far as they are started, and
/// waits.
template <class Body>
void ParallelPieces(int64_t count, Body&& body) {
  using B = std::remove_reference_t<Body>;
  internal::RunPieces(
      count, [](void* b, int64_t piece, int thread) { (*static_cast<B*>(b))(piece, thread); },
      const_cast<std::remove_const_t<B>*>(&body));
}

}  // namespace antiphon
