// Two numbers → a number: an open-addressing table that only grows.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace antiphon::decode {

class PairTable {
 public:
  PairTable() { Clear(); }

  void Clear() {
    slots_.assign(size_t{1} << 10, Slot{});
    shift_ = 64 - 10;
    size_ = 0;
  }

  /// What is stored for the pair, both ≥ 0; −1 makes room for it, to be filled in before the next call.
  int32_t& Find(int32_t a, int32_t b) {
    if (2 * size_ >= slots_.size()) Grow();
    const uint64_t key = KeyOf(a, b);
    Slot& slot = slots_[Place(key)];
    if (slot.value < 0) {
      slot.key = key;
      ++size_;
    }
    return slot.value;
  }

  /// Before a Find of the same pair: a table of many pairs does not fit into the cache.
  void Prefetch(int32_t a, int32_t b) const { __builtin_prefetch(&slots_[FirstPlace(KeyOf(a, b))]); }

  size_t memory() const { return slots_.size() * sizeof(Slot); }

 private:
  struct Slot {
    uint64_t key = 0;
    int32_t value = -1;
  };

  static uint64_t KeyOf(int32_t a, int32_t b) {
    return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
  }
  // Fibonacci hashing: the upper bits of the product depend on all of the key.
  size_t FirstPlace(uint64_t key) const { return (key * 0x9E3779B97F4A7C15U) >> shift_; }
  size_t Place(uint64_t key) const {
    size_t i = FirstPlace(key);
    while (slots_[i].value >= 0 && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
    return i;
  }

  void Grow() {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    --shift_;
    for (const Slot& slot : old) {
      if (slot.value >= 0) slots_[Place(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  int shift_ = 0;
  size_t size_ = 0;
};

}  // namespace antiphon::decode
