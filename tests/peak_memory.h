// The most memory that this process has held so far.
#pragma once

#include <sys/resource.h>

namespace antiphon::testing {

/// A sanitizer's allocator holds on to what was freed. clang tells of its sanitizers otherwise than gcc.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kKeepsFreedMemory = true;
#elif !defined(__has_feature)
constexpr bool kKeepsFreedMemory = false;
#elif __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kKeepsFreedMemory = true;
#else
constexpr bool kKeepsFreedMemory = false;
#endif

inline double PeakMegabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace antiphon::testing
