#include "infer/huge_buffer.h"

#include <sys/mman.h>

#include "base/error.h"

namespace antiphon::infer {
namespace {

// Kernels fetch this far ahead of what they read.
constexpr size_t kMargin = 1 << 13;

}  // namespace

HugeBuffer::HugeBuffer(size_t bytes) : bytes_(bytes) {
  void* const memory = mmap(nullptr, bytes + kMargin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Throw<Error>("no memory for {} bytes of weights", bytes);
  data_ = static_cast<std::byte*>(memory);
#ifdef MADV_HUGEPAGE
  // Advice only: without it the same, slower.
  (void)madvise(memory, bytes + kMargin, MADV_HUGEPAGE);
#endif
}

HugeBuffer::~HugeBuffer() {
  if (data_ != nullptr) munmap(data_, bytes_ + kMargin);
}

}  // namespace antiphon::infer
