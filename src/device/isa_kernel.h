// Kernels whose variants are named by instruction set: the best one that may be used.
#pragma once

#include "base/isa.h"
#include "device/kernel_table.h"

namespace antiphon {

/// The variant of the highest instruction set that this CPU has, not above `limit`. Throws UsageError if there is none.
template <class Operation>
const typename KernelTable<Operation>::Entry& IsaKernel(DataType type, Isa limit) {
  const typename KernelTable<Operation>::Entry* best = nullptr;
  const auto& isas = SupportedIsas();
  for (auto isa = isas.rbegin(); isa != isas.rend() && best == nullptr; ++isa) {
    if (*isa > limit) continue;
    for (const auto& entry : KernelTable<Operation>::Get().entries()) {
      if (entry.device == DeviceKind::kCpu && entry.type == type && entry.variant == IsaName(*isa)) best = &entry;
    }
  }
  if (best == nullptr) {
    Throw<UsageError>("operation '{}' has no kernel for data type '{}' up to instruction set '{}'", Operation::kName,
                      DataTypeName(type), IsaName(limit));
  }
  return *best;
}

}  // namespace antiphon
