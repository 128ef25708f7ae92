// Memory of runs inside a step, as many as threads at a time; kept for the next ones.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace antiphon::infer {

/// Memory has max_rows().
template <class Memory>
class SpareMemory {
 public:
  /// One for `rows` rows, a new one by make(rows) if none is large enough.
  template <class Make>
  std::unique_ptr<Memory> Borrow(int rows, const Make& make) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Memory> memory;
    if (!spare_.empty()) {
      memory = std::move(spare_.back());
      spare_.pop_back();
    }
    if (memory == nullptr || memory->max_rows() < rows) memory = make(rows);
    return memory;
  }
  void Return(std::unique_ptr<Memory> memory) {
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(memory));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Memory>> spare_;  // guarded by mutex_
};

}  // namespace antiphon::infer
