#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/io_error.h"

namespace antiphon {

FolderLock::FolderLock(const std::filesystem::path& folder, const std::string& name, const std::string& advice) {
  MakeFolder(folder);
  fd_ = ::open((folder / name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (fd_ < 0) ThrowIo("write to", folder, errno);
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(fd_);
  throw UsageError(advice);
}

FolderLock::~FolderLock() { ::close(fd_); }

}  // namespace antiphon
