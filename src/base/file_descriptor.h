// An open file that is closed when its owner goes, and reading from one that may have nothing for a while.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace antiphon {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { Close(); }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

/// What there is to read, at least a byte; 0 at the end; none if nothing came for so long, or a signal came. `name`: of
/// the file, for errors. Throws IoError.
std::optional<size_t> ReadSome(int fd, std::span<std::byte> bytes, double timeout_s, std::string_view name);

}  // namespace antiphon
