// Memory for packed weights: zeroed, on huge pages where the system has them, with a margin behind that may be fetched.
#pragma once

#include <cstddef>
#include <utility>

namespace antiphon::infer {

class HugeBuffer {
 public:
  HugeBuffer() = default;
  /// Throws Error if there is no memory.
  explicit HugeBuffer(size_t bytes);
  HugeBuffer(HugeBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  HugeBuffer& operator=(HugeBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HugeBuffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace antiphon::infer
