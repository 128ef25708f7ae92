#include "report/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/io_error.h"

namespace antiphon::report {
namespace {

constexpr std::string_view kWhenFull = "free some space, then go on with --resume";

}  // namespace

FileDescriptor OpenForAppending(const std::filesystem::path& path, uint64_t keep_bytes) {
  if (path.has_parent_path()) MakeFolder(path.parent_path());
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (file.get() < 0) ThrowIo("write", path, errno, kWhenFull);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) ThrowIo("examine", path, errno, kWhenFull);
  if (!S_ISREG(info.st_mode)) return file;
  if (static_cast<uint64_t>(info.st_size) < keep_bytes) {
    Throw<IoError>("'{}' has {} bytes, but the checkpoint knows {}: the file was changed since; move it away",
                   path.string(), info.st_size, keep_bytes);
  }
  const auto keep = static_cast<off_t>(keep_bytes);
  if (::ftruncate(file.get(), keep) != 0 || ::lseek(file.get(), keep, SEEK_SET) < 0)
    ThrowIo("cut back", path, errno, kWhenFull);
  return file;
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
      ThrowIo("append to", path, error, kWhenFull);
    }
    done += static_cast<size_t>(written);
  }
}

}  // namespace antiphon::report
