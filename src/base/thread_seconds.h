// CPU time of the calling thread: what work costs, whatever else the machine does.
#pragma once

#include <ctime>

namespace antiphon {

/// Seconds since the thread began.
inline double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace antiphon
