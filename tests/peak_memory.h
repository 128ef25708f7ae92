// The most memory that this process has held so far.
#pragma once

#include <sys/resource.h>

namespace antiphon::testing {

inline double PeakMegabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace antiphon::testing
