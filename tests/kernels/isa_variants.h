// The variants of an operation that this CPU can run, "portable" first.
#pragma once

#include <vector>

#include "device/isa_kernel.h"

namespace antiphon::testing {

template <class Operation>
std::vector<typename KernelTable<Operation>::Entry> SupportedVariants(DataType type) {
  std::vector<typename KernelTable<Operation>::Entry> found;
  for (const Isa isa : SupportedIsas()) {
    for (const auto& entry : KernelTable<Operation>::Get().entries()) {
      if (entry.type == type && entry.variant == IsaName(isa)) found.push_back(entry);
    }
  }
  return found;
}

}  // namespace antiphon::testing
