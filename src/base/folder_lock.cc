#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/io_error.h"

namespace antiphon {

FolderLock::FolderLock(const std::filesystem::path& folder, const std::string& name, const std::string& advice) {
  MakeFolder(folder);
  file_ = FileDescriptor(::open((folder / name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
  if (file_.get() < 0) ThrowIo("write to", folder, errno);
  while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) throw UsageError(advice);
    if (errno == EINTR) continue;
    Throw<IoError>(
        "cannot lock '{}': {}; the folder has to be on a file system with locks: choose another one, or ask who looks "
        "after it (NFS needs its lock service, Lustre the mount option flock)",
        (folder / name).string(), std::strerror(errno));
  }
}

bool FolderLock::IsHeld(const std::filesystem::path& folder, const std::string& name) {
  const FileDescriptor file(::open((folder / name).c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0) return false;
  return ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace antiphon
