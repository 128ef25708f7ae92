// What the methods of an object say when all that it had was moved away.
//
// Threads: pure. Errors: UsageError, which names the class.
#pragma once

#include "base/error.h"

namespace antiphon {

/// What `impl` points to. `kind`: the class, as the public headers name it.
template <class Pointer>
auto& Alive(const Pointer& impl, const char* kind) {
  if (!impl) Throw<UsageError>("this {} was moved away: call the one that it was moved to", kind);
  return *impl;
}

}  // namespace antiphon
