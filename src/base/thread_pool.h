// Runs independent pieces (utterances, files) on several threads with a result that does not depend on how many.
//
// Pieces are claimed in order; what each computes must depend on its index alone. Arithmetic inside a piece is
// single-threaded, so that cores are not asked for twice. Whoever asks the caller to stop (base/cancel.h) asks the
// pieces. Where the system gives fewer threads, those do the work.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace antiphon {

/// Number of cores this process may use: of its affinity, and within the CPU time that its control groups grant.
int NumCores();

namespace internal {
/// Cores for which CPU time is granted by control group `group` (a path as /proc/self/cgroup has it) and those above
/// it, rounded up; 0: no limit. `root`: where version 2's hierarchy is mounted.
int CoresOfControlGroup(const std::filesystem::path& root, const std::string& group);
}  // namespace internal

/// Calls body(i) for i in [0, count) on up to num_threads threads (≤ 0: NumCores()) and waits. The first exception by
/// index is rethrown after all running pieces ended; pieces not yet started are skipped.
void ParallelFor(size_t count, int num_threads, const std::function<void(size_t)>& body);

namespace internal {
/// Calls produce(i, i % num_slots) on the workers and consume(i, i % num_slots) here, in order; at most num_slots are
/// in flight.
void RunInOrder(size_t count, int num_threads, size_t num_slots, const std::function<void(size_t, size_t)>& produce,
                const std::function<void(size_t, size_t)>& consume);
}  // namespace internal

/// Computes produce(i) for i in [0, count) on several threads and hands the results to consume(i, result) in order, on
/// the calling thread: work on utterances that ends in one file. Few results are held at a time. The exception that
/// comes first by index is rethrown, after all earlier results were consumed.
///   ParallelInOrder<Matrix>(n, 0, [&](size_t i) { return Features(i); }, [&](size_t i, Matrix&& m) {
///   writer.Write(id[i], m); });
template <class T, class Produce, class Consume>
void ParallelInOrder(size_t count, int num_threads, Produce&& produce, Consume&& consume) {
  if (num_threads <= 0) num_threads = NumCores();
  std::vector<std::optional<T>> slots(4 * static_cast<size_t>(num_threads));
  internal::RunInOrder(
      count, num_threads, slots.size(), [&](size_t i, size_t slot) { slots[slot].emplace(produce(i)); },
      [&](size_t i, size_t slot) {
        consume(i, std::move(*slots[slot]));
        slots[slot].reset();
      });
}

}  // namespace antiphon
