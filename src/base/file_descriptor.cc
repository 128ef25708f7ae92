#include "base/file_descriptor.h"

#include <poll.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace antiphon {

std::optional<size_t> ReadSome(int fd, std::span<std::byte> bytes, double timeout_s, std::string_view name) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  const int ready = ::poll(&waiting, 1, static_cast<int>(timeout_s * 1000));
  if (ready == 0 || (ready < 0 && errno == EINTR)) return std::nullopt;
  if (ready < 0) Throw<IoError>("cannot wait for {}: {}", name, std::strerror(errno));
  const ssize_t count = ::read(fd, bytes.data(), bytes.size());
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return std::nullopt;
  if (count < 0) Throw<IoError>("cannot read {}: {}", name, std::strerror(errno));
  return static_cast<size_t>(count);
}

}  // namespace antiphon
