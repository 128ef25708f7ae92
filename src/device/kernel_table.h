// (operation, device, data type) → function, filled at load time, read at run time.
//
// An operation is a tag type with its function's signature; every implementation is one file that registers itself:
//   struct Softmax { static constexpr const char* kName = "softmax"; using Function = void (*)(ConstMatrixView,
//   MatrixView); }; REGISTER_KERNEL(Softmax, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &SoftmaxCpu);
// Several variants may stand for one key ("ref", "highway"); the highest priority is taken, and tests compare them all
// with "ref".
// Threads: registration happens before main; look-ups afterwards are read-only.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/registry.h"
#include "device/device.h"

namespace antiphon {

template <class Operation>
class KernelTable {
 public:
  struct Entry {
    DeviceKind device;
    DataType type;
    std::string variant;
    int priority;
    typename Operation::Function function;
  };

  static KernelTable& Get() {
    static KernelTable table;
    return table;
  }

  bool Add(Entry entry) {
    entries_.push_back(std::move(entry));
    return true;
  }

  /// The best implementation. Throws UsageError if there is none: never another device's instead.
  typename Operation::Function Find(DeviceKind device, DataType type) const {
    const Entry* best = nullptr;
    for (const Entry& e : entries_) {
      if (e.device == device && e.type == type && (best == nullptr || e.priority > best->priority)) best = &e;
    }
    if (best == nullptr) {
      Throw<UsageError>("operation '{}' is not available on device '{}' for data type '{}'", Operation::kName,
                        DeviceKindName(device), DataTypeName(type));
    }
    return best->function;
  }

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

/// The CPU's best implementation, looked up once.
template <class Operation>
typename Operation::Function CpuKernel(DataType type = DataType::kFloat32) {
  if (type == DataType::kFloat32) {
    static const auto function = KernelTable<Operation>::Get().Find(DeviceKind::kCpu, DataType::kFloat32);
    return function;
  }
  return KernelTable<Operation>::Get().Find(DeviceKind::kCpu, type);
}

}  // namespace antiphon

#define REGISTER_KERNEL(Operation, device, type, variant, priority, function)                       \
  [[maybe_unused]] static const bool ANTIPHON_CONCAT(registered_kernel_, __COUNTER__) =             \
      ::antiphon::KernelTable<Operation>::Get().Add({device, type, variant, priority, function}) && \
      ::antiphon::internal::RecordRegistration(__FILE__, variant)
