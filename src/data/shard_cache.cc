#include "data/shard_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/io_error.h"
#include "base/log.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = 8 << 20;
constexpr auto kBetweenLocks = std::chrono::milliseconds(50);
constexpr std::string_view kPart = ".part";
constexpr std::string_view kLock = ".lock";
// Names in a frame store, and of its key (data/frame_store.cc).
constexpr std::string_view kIndexFile = "index.bin";
constexpr std::string_view kShard = "shard-";
constexpr std::string_view kFrames = ".frames";
constexpr size_t kShardDigits = 5;
constexpr size_t kKeyDigits = 16;

[[noreturn]] void ThrowErrno(const std::string& what, const fs::path& path, int error) {
  const char* const advice =
      error == ELOOP ? "; a symbolic link stands there, which the cache does not follow: remove it" : "";
  Throw<IoError>("cannot {} '{}': {}{}", what, path.string(), std::strerror(error), advice);
}

// True if `descriptor` is still what stands at `path`.
bool StandsAt(int descriptor, const fs::path& path) {
  struct stat mine {
  }, there{};
  return ::fstat(descriptor, &mine) == 0 && ::stat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino &&
         mine.st_dev == there.st_dev;
}

// Opens and locks the file at `path` in the given way; not valid if it is not there or, with LOCK_NB, in use. Names in
// a shared cache can be foretold: a link that somebody put there is not written through.
int OpenLocked(const fs::path& path, int flags, int lock) {
  for (;;) {
    FileDescriptor file(::open(path.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (file.get() < 0) return -1;
    while (::flock(file.get(), lock) != 0) {
      if (errno != EINTR) return -1;
    }
    if (StandsAt(file.get(), path)) return file.release();
    if ((lock & LOCK_NB) != 0) {
      errno = 0;
      return -1;
    }
  }
}

// The lock on making a file, awaited until `stop` is true. No reader ever takes it, so that nobody waits for longer
// than a copy takes.
class LockFile {
 public:
  LockFile(fs::path path, const std::function<bool()>& stop) : path_(std::move(path)) {
    while ((file_ = FileDescriptor(OpenLocked(path_, O_RDWR | O_CREAT, LOCK_EX | LOCK_NB))).get() < 0) {
      // Without an error: it was removed in between.
      if (errno != EWOULDBLOCK && errno != 0) ThrowErrno("lock", path_, errno);
      if (stop()) throw Cancelled("stopped on request while another process makes a file of the cache");
      std::this_thread::sleep_for(kBetweenLocks);
    }
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

bool IsKey(const std::string& name) {
  return name.size() == kKeyDigits && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// A shard or an index, or what stands there while it is made.
bool IsCached(std::string_view name) {
  for (const std::string_view ending : {kPart, kLock}) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  if (name == kIndexFile) return true;
  if (!name.starts_with(kShard) || !name.ends_with(kFrames)) return false;
  name.remove_prefix(kShard.size());
  name.remove_suffix(kFrames.size());
  return name.size() >= kShardDigits && name.find_first_not_of("0123456789") == std::string_view::npos;
}

// The folder may be one that holds other things: by their names alone, files are known for the cache's own.
std::vector<Kept> ListCache(const fs::path& folder) {
  std::vector<Kept> files;
  std::error_code gone;
  for (fs::directory_iterator key(folder, gone), last; !gone && key != last; key.increment(gone)) {
    std::error_code raced;
    if (!fs::is_directory(key->symlink_status(raced)) || !IsKey(key->path().filename().string())) continue;
    for (fs::directory_iterator it(key->path(), raced), end; !raced && it != end; it.increment(raced)) {
      std::error_code removed;
      if (!fs::is_regular_file(it->symlink_status(removed)) || !IsCached(it->path().filename().string())) continue;
      const Kept file{it->path(), it->file_size(removed), it->last_write_time(removed)};
      if (!removed) files.push_back(file);
    }
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
    // Opened for writing, too, as network file systems want it for an exclusive lock.
    const FileDescriptor unused(OpenLocked(file.path, O_RDWR, LOCK_EX | LOCK_NB));
    if (unused.get() < 0) continue;
    if (::unlink(file.path.c_str()) == 0) used -= file.bytes;
  }
  return used + bytes <= limit;
}

void CopyFile(const fs::path& source, int target, const fs::path& target_path, uint64_t bytes,
              const std::function<bool()>& stop) {
  const FileDescriptor from(::open(source.c_str(), O_RDONLY | O_CLOEXEC));
  if (from.get() < 0) ThrowErrno("read", source, errno);
  std::vector<char> piece(kPieceBytes);
  uint64_t done = 0;
  while (done < bytes) {
    if (stop()) throw Cancelled("stopped on request while copying into the cache");
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
}

// The file at `path` if it is whole and right; one that is not is removed, and `wrong` says why. What the system
// refuses, descriptors or memory, says nothing against the file.
std::optional<CachedFile> TakeExisting(const fs::path& path, const CacheEntry& entry, std::string& wrong) {
  FileDescriptor file(OpenLocked(path, O_RDONLY, LOCK_SH));
  if (file.get() < 0) return std::nullopt;
  try {
    struct stat state {};
    if (::fstat(file.get(), &state) != 0 || static_cast<uint64_t>(state.st_size) != entry.bytes) {
      Throw<InputError>("'{}' has {} bytes, expected {}", path.string(), state.st_size, entry.bytes);
    }
    FileDescriptor lock(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
    if (lock.get() < 0) ThrowErrno("open", path, errno);
    CachedFile cached(std::move(lock), path);
    entry.verify(cached.bytes());
    (void)::futimens(file.get(), nullptr);  // used now
    return cached;
  } catch (const InputError& e) {
    wrong = e.what();
    log::Warn("cached copy made anew: {}", wrong);
    if (StandsAt(file.get(), path)) ::unlink(path.c_str());
    return std::nullopt;
  }
}

}  // namespace

std::function<void(int, const fs::path&)> CopyOf(fs::path source, uint64_t bytes, std::function<bool()> stop) {
  return [source = std::move(source), bytes, stop = std::move(stop)](int target, const fs::path& path) {
    CopyFile(source, target, path, bytes, stop);
  };
}

bool ShardCache::Make(const fs::path& path, const CacheEntry& entry) const {
  CHECK(IsKey(key_) && IsCached(entry.name)) << "the cache would not know its own file '" << path.string() << "'";
  const fs::path part = path.string() + std::string(kPart);
  // Whoever makes room leaves it alone while it is locked.
  const FileDescriptor target(OpenLocked(part, O_RDWR | O_CREAT, LOCK_EX));
  if (target.get() < 0) ThrowErrno("make", part, errno);
  try {
    {
      const FileDescriptor alone = LockFolder(folder_);
      if (::ftruncate(target.get(), 0) != 0) ThrowErrno("write", part, errno);
      if (!MakeRoom(folder_, entry.bytes, limit_bytes_)) {
        ::unlink(part.c_str());
        return false;
      }
      // From here on its bytes count.
      if (const int error = ::posix_fallocate(target.get(), 0, static_cast<off_t>(entry.bytes)); error != 0) {
        ThrowErrno("write", part, error);
      }
    }
    entry.fill(target.get(), part);
    if (::fsync(target.get()) != 0) ThrowErrno("write", part, errno);
    if (::rename(part.c_str(), path.c_str()) != 0) ThrowErrno("rename", part, errno);
  } catch (...) {
    ::unlink(part.c_str());
    throw;
  }
  return true;
}

std::optional<CachedFile> ShardCache::Take(const CacheEntry& entry, const std::function<bool()>& stop) const {
  constexpr int kAttempts = 2;
  const fs::path path = folder_ / key_ / entry.name;
  std::string wrong;
  if (auto there = TakeExisting(path, entry, wrong)) return there;
  if (entry.bytes > limit_bytes_) {
    Throw<InputError>("'{}' has {:.1f} MB, more than the cache '{}' may hold ({:.1f} MB, data.cache-limit-gb)",
                      entry.name, static_cast<double>(entry.bytes) / 1e6, folder_.string(),
                      static_cast<double>(limit_bytes_) / 1e6);
  }
  MakeFolder(path.parent_path());
  const LockFile one_makes_it(path.string() + std::string(kLock), stop);
  // Another process may have made it while this one waited.
  if (auto there = TakeExisting(path, entry, wrong)) return there;
  wrong = "it was removed at once";
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (!Make(path, entry)) return std::nullopt;
    // What was written counts, not what was read.
    if (auto there = TakeExisting(path, entry, wrong)) return there;
  }
  Throw<InputError>("the copy of '{}' in the cache is not what it should be: {}", entry.name, wrong);
}

}  // namespace antiphon::data
