#include "report/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace antiphon::report {
namespace {

[[noreturn]] void ThrowIo(std::string_view operation, const std::filesystem::path& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  Throw<IoError>("cannot {} '{}': {}{}", operation, path.string(), std::strerror(error),
                 full ? "; the disk is full: free some space, then go on with --resume" : "");
}

}  // namespace

int OpenForAppending(const std::filesystem::path& path, uint64_t keep_bytes) {
  std::error_code made;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), made);
  if (made) ThrowIo("make the folder of", path, made.value());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) ThrowIo("write", path, errno);
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    const int error = errno;
    ::close(fd);
    ThrowIo("examine", path, error);
  }
  if (S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) < keep_bytes) {
    ::close(fd);
    Throw<IoError>("'{}' has {} bytes, but the checkpoint knows {}: the file was changed since; move it away",
                   path.string(), info.st_size, keep_bytes);
  }
  const auto keep = static_cast<off_t>(keep_bytes);
  if (S_ISREG(info.st_mode) && (::ftruncate(fd, keep) != 0 || ::lseek(fd, keep, SEEK_SET) < 0)) {
    const int error = errno;
    ::close(fd);
    ThrowIo("cut back", path, error);
  }
  return fd;
}

void AppendWhole(int fd, const std::filesystem::path& path, uint64_t position, std::string_view bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      const auto keep = static_cast<off_t>(position);
      if (::ftruncate(fd, keep) == 0) ::lseek(fd, keep, SEEK_SET);
      ThrowIo("append to", path, error);
    }
    done += static_cast<size_t>(written);
  }
}

void CloseAppended(int fd) noexcept {
  if (fd >= 0) ::close(fd);
}

}  // namespace antiphon::report
