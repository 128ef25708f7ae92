// Graph state → token of the current frame: an open-addressing table that is emptied every frame.
#pragma once

#include <cstdint>
#include <vector>

namespace antiphon::decode {

class TokenMap {
 public:
  TokenMap() { Reserve(1 << 12); }

  void Clear() {
    if (size_ > 0) std::fill(slots_.begin(), slots_.end(), Slot{-1, -1});
    size_ = 0;
  }

  /// The token index stored for `state`; −1 makes room for it, to be filled in.
  int32_t& operator[](int32_t state) {
    if (size_ * 2 >= slots_.size()) Grow();
    Slot& slot = Find(state);
    if (slot.state < 0) {
      slot.state = state;
      ++size_;
    }
    return slot.token;
  }

 private:
  struct Slot {
    int32_t state;
    int32_t token;
  };

  Slot& Find(int32_t state) {
    // Fibonacci hashing spreads neighbouring states.
    size_t i = (static_cast<uint32_t>(state) * 2654435769U) >> shift_;
    while (slots_[i].state != state && slots_[i].state >= 0) i = (i + 1) & mask_;
    return slots_[i];
  }

  void Reserve(size_t capacity) {
    slots_.assign(capacity, Slot{-1, -1});
    mask_ = capacity - 1;
    shift_ = 32;
    while (capacity > 1) capacity >>= 1, --shift_;
  }

  void Grow() {
    const std::vector<Slot> old = std::move(slots_);
    Reserve(old.size() * 2);
    for (const Slot& slot : old) {
      if (slot.state >= 0) Find(slot.state) = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
  size_t mask_ = 0;
  int shift_ = 32;
};

}  // namespace antiphon::decode
