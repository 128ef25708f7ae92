// Files that are never half there, and errors that name them.
//
// Errors: IoError with path, operation and the system's reason; "disk full" and "read-only" are named with what to do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"

namespace antiphon {

/// Whole file, or member of an archive (base/archive.h), as bytes. Throws IoError.
std::string ReadFile(const std::filesystem::path& path);

/// Writes to a temporary file beside `path`, syncs it, renames it over `path` and syncs the folder: after a crash
/// either the old file or the new one is there, whole. The temporary file is removed on error. Missing folders are
/// made.
void WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes);
/// The same for what `write` puts into a stream; a stream error or an exception leaves `path` as it was.
void WriteFileAtomically(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);

/// The same for a writer that cannot be a callback: write to stream(), then Commit. Without Commit nothing is left.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  ~AtomicFile();
  std::ostream& stream() { return stream_; }
  const std::filesystem::path& path() const { return path_; }
  /// Throws IoError if any write failed so far (disk full), so that long jobs need not wait for Commit to know.
  void CheckStream();
  /// Closes the stream and brings all of the file to the disk; Commit does so too, and then only renames. For several
  /// files that are to take their places together, and to read what was written at temporary() before it has its name.
  void Finish();
  const std::filesystem::path& temporary() const { return temporary_; }
  void Commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::ofstream stream_;
  FileDescriptor locked_;  // from Finish to Commit: keeps others from removing the file
  bool committed_ = false;
};

class HeldFolder;

/// Read-only memory map of a whole file, or of a member of an archive (base/archive.h); movable, unmapped at
/// destruction. An empty file gives an empty span.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  /// A file of the folder that is held, whatever lies at its path by now.
  MappedFile(const HeldFolder& folder, const std::filesystem::path& name);
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  void Map(int folder, const char* name);
  void Unmap() noexcept;
  std::filesystem::path path_;
  std::span<const std::byte> mapped_;  // the whole file: a member of an archive is a part of it
  std::span<const std::byte> bytes_;
};

/// A folder held open, or the lack of one: what is read through it comes out of that one folder, also when another is
/// put in its place meanwhile. Movable. Throws IoError if something is there that cannot be opened.
class HeldFolder {
 public:
  explicit HeldFolder(std::filesystem::path path);
  const std::filesystem::path& path() const { return path_; }
  bool Has(const std::filesystem::path& name) const;
  /// Whether the path still names this folder, or still nothing.
  bool InPlace() const;

 private:
  friend class MappedFile;
  std::filesystem::path path_;
  FileDescriptor fd_;
};

/// XXH3 64-bit checksum.
uint64_t Checksum(std::span<const std::byte> bytes);
uint64_t Checksum(std::string_view bytes);

}  // namespace antiphon
