// Copies of files from a slow (shared) file system on this machine's own disk, up to a limit of bytes.
//
// Folder: DIR/KEY/NAME, and NAME.part with NAME.lock while a copy is made; KEY tells stores apart. A copy is used when
// its content has been verified, by each process that takes it: one that was changed or cut short is made anew, and one
// that is under way is never taken for whole. Several processes of a machine share a folder: files in use are locked
// (flock, shared), so that room is made by removing, longest unused first, only what nobody uses; one process copies a
// file, others wait for its NAME.lock. A crash leaves at most these two files, which the next one takes over.
// Threads: const methods may run together. Errors: Take never throws for what is wrong with the cache (no room, disk
// full, not writable, damaged): it says why and the original serves.
#pragma once

#include <atomic>
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

class ShardCache {
 public:
  ShardCache(std::filesystem::path folder, std::string key, uint64_t limit_bytes)
      : folder_(std::move(folder)), key_(std::move(key)), limit_bytes_(limit_bytes) {}

  /// The copy of `source`, which has `bytes` bytes; made first if it is not there. `verify` throws for content that is
  /// not what it should be. Nullopt: there is none, `why` says why not. `stop` ends a copy under way.
  std::optional<CachedFile> Take(const std::string& name, const std::filesystem::path& source, uint64_t bytes,
                                 const std::function<void(std::span<const std::byte>)>& verify,
                                 const std::atomic<bool>& stop, std::string& why) const;

  uint64_t limit_bytes() const { return limit_bytes_; }

 private:
  /// Under NAME.lock. False: there is no room.
  bool Make(const std::filesystem::path& path, const std::filesystem::path& source, uint64_t bytes,
            const std::atomic<bool>& stop) const;

  std::filesystem::path folder_;
  std::string key_;
  uint64_t limit_bytes_;
};

}  // namespace antiphon::data
