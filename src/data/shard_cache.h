// Copies of files from a slow (shared) file system or a server on this machine's own disk, up to a limit of bytes.
//
// Folder: DIR/KEY/NAME, and NAME.part with NAME.lock while a copy is made; KEY, 16 hexadecimal digits, tells stores
// apart, and NAME is index.bin or shard-NNNNN.frames. What has other names is not the cache's: it neither counts nor is
// ever removed. A copy is used when its content has been verified, by each process that takes it: one that was changed
// or cut short is made anew, and one that is under way is never taken for whole. Several processes of a machine share a
// folder: files in use are locked (flock, shared), so that room is made by removing, longest unused first, only what
// nobody uses; one process copies a file, others wait for its NAME.lock. A crash leaves at most these two files, which
// the next one takes over. Threads: const methods may run together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/file_descriptor.h"

namespace antiphon::data {

/// A cached file, mapped, and not to be removed by others as long as this lives.
class CachedFile {
 public:
  CachedFile(FileDescriptor lock, const std::filesystem::path& path) : file_(path), lock_(std::move(lock)) {}
  std::span<const std::byte> bytes() const { return file_.bytes(); }

 private:
  MappedFile file_;
  FileDescriptor lock_;
};

/// How a file of the cache is made.
struct CacheEntry {
  std::string name;
  uint64_t bytes = 0;
  /// Writes all bytes into the file `target`, which stands at `path`.
  std::function<void(int target, const std::filesystem::path& path)> fill;
  /// Throws InputError for content that is not what it should be.
  std::function<void(std::span<const std::byte>)> verify;
};

/// A fill that copies a file.
std::function<void(int, const std::filesystem::path&)> CopyOf(std::filesystem::path source, uint64_t bytes,
                                                              std::function<bool()> stop);

class ShardCache {
 public:
  ShardCache(std::filesystem::path folder, std::string key, uint64_t limit_bytes)
      : folder_(std::move(folder)), key_(std::move(key)), limit_bytes_(limit_bytes) {}

  /// The copy, made first if it is not there: a second time if it is wrong. Nullopt: there is no room at present, as
  /// all is in use. InputError for a file larger than the cache, or that is not what it should be; IoError; what `fill`
  /// throws; Cancelled once `stop` is true while another process makes the copy.
  std::optional<CachedFile> Take(const CacheEntry& entry, const std::function<bool()>& stop) const;

  const std::filesystem::path& folder() const { return folder_; }
  uint64_t limit_bytes() const { return limit_bytes_; }

 private:
  /// Under NAME.lock. False: there is no room.
  bool Make(const std::filesystem::path& path, const CacheEntry& entry) const;

  std::filesystem::path folder_;
  std::string key_;
  uint64_t limit_bytes_;
};

}  // namespace antiphon::data
