// Letting the system take back the memory of mapped files that were read; who reads again reads the file.
//
// Only a hint: where the system does not take it, that costs memory and nothing else. Threads: any, also while others
// read.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>

namespace antiphon {

/// `mapped` begins where a mapping does.
inline void ReleasePages(std::span<const std::byte> mapped) {
  if (mapped.empty()) return;
  (void)::madvise(const_cast<std::byte*>(mapped.data()), mapped.size(), MADV_DONTNEED);
}

}  // namespace antiphon
