#include "data/shard_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/io_error.h"
#include "base/log.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = 8 << 20;
constexpr std::string_view kPart = ".part";
constexpr std::string_view kLock = ".lock";

[[noreturn]] void ThrowErrno(const std::string& what, const fs::path& path, int error) {
  Throw<IoError>("cannot {} '{}': {}", what, path.string(), std::strerror(error));
}

// True if `descriptor` is still what stands at `path`.
bool StandsAt(int descriptor, const fs::path& path) {
  struct stat mine {
  }, there{};
  return ::fstat(descriptor, &mine) == 0 && ::stat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino &&
         mine.st_dev == there.st_dev;
}

// Opens and locks the file at `path` in the given way; not valid if it is not there or, with LOCK_NB, in use.
int OpenLocked(const fs::path& path, int flags, int lock) {
  for (;;) {
    FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0644));
    if (file.get() < 0) return -1;
    while (::flock(file.get(), lock) != 0) {
      if (errno != EINTR) return -1;
    }
    if (StandsAt(file.get(), path)) return file.release();
    if ((lock & LOCK_NB) != 0) return -1;
  }
}

// A file that is there, locked, as long as this lives. No reader ever locks it, so that nobody waits for longer than a
// copy takes.
class LockFile {
 public:
  explicit LockFile(fs::path path) : path_(std::move(path)), file_(OpenLocked(path_, O_RDWR | O_CREAT, LOCK_EX)) {
    if (file_.get() < 0) ThrowErrno("lock", path_, errno);
  }
  ~LockFile() { ::unlink(path_.c_str()); }

 private:
  fs::path path_;
  FileDescriptor file_;
};

FileDescriptor LockFolder(const fs::path& folder) {
  const fs::path path = folder / "lock";
  const int file = OpenLocked(path, O_RDWR | O_CREAT, LOCK_EX);
  if (file < 0) ThrowErrno("lock", path, errno);
  return FileDescriptor(file);
}

struct Kept {
  fs::path path;
  uint64_t bytes;
  fs::file_time_type used;
};

std::vector<Kept> ListCache(const fs::path& folder) {
  std::vector<Kept> files;
  std::error_code gone;
  for (fs::recursive_directory_iterator it(folder, gone), end; it != end; it.increment(gone)) {
    std::error_code raced;
    if (!it->is_regular_file(raced) || it->path().parent_path() == folder) continue;
    const Kept file{it->path(), it->file_size(raced), it->last_write_time(raced)};
    if (!raced) files.push_back(file);
  }
  std::sort(files.begin(), files.end(), [](const Kept& a, const Kept& b) { return a.used < b.used; });
  return files;
}

// Under the folder's lock. False if what others use leaves too little.
bool MakeRoom(const fs::path& folder, uint64_t bytes, uint64_t limit) {
  const std::vector<Kept> files = ListCache(folder);
  uint64_t used = 0;
  for (const Kept& file : files) used += file.bytes;
  for (const Kept& file : files) {
    if (used + bytes <= limit) break;
    const FileDescriptor unused(OpenLocked(file.path, O_RDONLY, LOCK_EX | LOCK_NB));
    if (unused.get() < 0) continue;
    if (::unlink(file.path.c_str()) == 0) used -= file.bytes;
  }
  return used + bytes <= limit;
}

void CopyShard(const fs::path& source, int target, const fs::path& target_path, uint64_t bytes,
               const std::atomic<bool>& stop) {
  const FileDescriptor from(::open(source.c_str(), O_RDONLY | O_CLOEXEC));
  if (from.get() < 0) ThrowErrno("read", source, errno);
  std::vector<char> piece(kPieceBytes);
  uint64_t done = 0;
  while (done < bytes) {
    if (stop) throw Cancelled("the cache is not needed any more");
    const ssize_t got = ::pread(from.get(), piece.data(), piece.size(), static_cast<off_t>(done));
    if (got <= 0) ThrowErrno("read", source, got == 0 ? EIO : errno);
    for (ssize_t put = 0; put < got;) {
      const ssize_t n =
          ::pwrite(target, piece.data() + put, static_cast<size_t>(got - put), static_cast<off_t>(done) + put);
      if (n <= 0) ThrowErrno("write", target_path, n == 0 ? EIO : errno);
      put += n;
    }
    done += static_cast<uint64_t>(got);
  }
  if (::fsync(target) != 0) ThrowErrno("write", target_path, errno);
}

// The file at `path` if it is whole and right; one that is not is removed.
std::optional<CachedFile> TakeExisting(const fs::path& path, uint64_t bytes,
                                       const std::function<void(std::span<const std::byte>)>& verify) {
  FileDescriptor file(OpenLocked(path, O_RDONLY, LOCK_SH));
  if (file.get() < 0) return std::nullopt;
  try {
    struct stat state {};
    if (::fstat(file.get(), &state) != 0 || static_cast<uint64_t>(state.st_size) != bytes) {
      Throw<InputError>("'{}' has {} bytes, expected {}", path.string(), state.st_size, bytes);
    }
    CachedFile cached(FileDescriptor(::dup(file.get())), path);
    verify(cached.bytes());
    (void)::futimens(file.get(), nullptr);  // used now
    return cached;
  } catch (const Error& e) {
    log::Warn("cached copy made anew: {}", e.what());
    if (StandsAt(file.get(), path)) ::unlink(path.c_str());
    return std::nullopt;
  }
}

}  // namespace

bool ShardCache::Make(const fs::path& path, const fs::path& source, uint64_t bytes,
                      const std::atomic<bool>& stop) const {
  const fs::path part = path.string() + std::string(kPart);
  // Whoever makes room leaves it alone while it is locked.
  const FileDescriptor target(OpenLocked(part, O_RDWR | O_CREAT, LOCK_EX));
  if (target.get() < 0) ThrowErrno("make", part, errno);
  try {
    {
      const FileDescriptor alone = LockFolder(folder_);
      if (::ftruncate(target.get(), 0) != 0) ThrowErrno("write", part, errno);
      if (!MakeRoom(folder_, bytes, limit_bytes_)) {
        ::unlink(part.c_str());
        return false;
      }
      // From here on its bytes count.
      if (const int error = ::posix_fallocate(target.get(), 0, static_cast<off_t>(bytes)); error != 0) {
        ThrowErrno("write", part, error);
      }
    }
    CopyShard(source, target.get(), part, bytes, stop);
    if (::rename(part.c_str(), path.c_str()) != 0) ThrowErrno("rename", part, errno);
  } catch (...) {
    ::unlink(part.c_str());
    throw;
  }
  return true;
}

std::optional<CachedFile> ShardCache::Take(const std::string& name, const fs::path& source, uint64_t bytes,
                                           const std::function<void(std::span<const std::byte>)>& verify,
                                           const std::atomic<bool>& stop, std::string& why) const {
  const fs::path path = folder_ / key_ / name;
  try {
    if (auto there = TakeExisting(path, bytes, verify)) return there;
    if (bytes > limit_bytes_) {
      why = fmt::format("'{}' has {:.1f} MB, more than the cache may hold ({:.1f} MB)", source.string(),
                        static_cast<double>(bytes) / 1e6, static_cast<double>(limit_bytes_) / 1e6);
      return std::nullopt;
    }
    MakeFolder(path.parent_path());
    const LockFile one_makes_it(path.string() + std::string(kLock));
    // Another process may have made it while this one waited.
    if (auto there = TakeExisting(path, bytes, verify)) return there;
    if (!Make(path, source, bytes, stop)) {
      why = fmt::format("the cache '{}' is full of files in use", folder_.string());
      return std::nullopt;
    }
    // What was copied counts, not what was read.
    if (auto there = TakeExisting(path, bytes, verify)) return there;
    why = fmt::format("the copy of '{}' is not what it should be, or was removed at once", source.string());
  } catch (const std::exception& e) {
    why = e.what();
  }
  return std::nullopt;
}

}  // namespace antiphon::data
