// Runs independent pieces (utterances, files) on several threads with a result that does not depend on how many.
//
// Pieces are claimed in order; what each computes must depend on its index alone. Arithmetic inside a piece is
// single-threaded (OpenMP is limited to one thread there), so that cores are not asked for twice.
#pragma once

#include <cstddef>
#include <functional>

namespace antiphon {

/// Number of cores this process may use.
int NumCores();

/// Calls body(i) for i in [0, count) on up to num_threads threads (≤ 0: NumCores()) and waits. The first exception by index
/// is rethrown after all running pieces ended; pieces not yet started are skipped.
void ParallelFor(size_t count, int num_threads, const std::function<void(size_t)>& body);

}  // namespace antiphon
