// Plain tar archives (POSIX ustar, not compressed) as folders of read-only files, which are mapped where they lie.
//
// A path that leads through a regular file names a member of it: "mine.antiphon/graph/HCLG.fst". ReadFile and
// MappedFile (base/file.h) take such paths, so that whoever reads a model need not know where it lies.
//
// Threads: one per writer; functions are safe together. Errors: IoError; InputError naming the archive and the place in
// it for what is no tar, or is cut short, or has members other than files and folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace antiphon {

struct ArchiveMember {
  std::string name;     // with '/' between folders
  uint64_t offset = 0;  // of its bytes in the archive
  uint64_t size = 0;
};

/// The files in it, in their order.
std::vector<ArchiveMember> ListArchive(const std::filesystem::path& archive);

/// A path as an archive and what is in it; nullopt if no folder of the path is a regular file.
struct PlaceInArchive {
  std::filesystem::path archive;
  std::string name;
};
std::optional<PlaceInArchive> FindArchive(const std::filesystem::path& path);
/// The member at that place; nullopt if there is none.
std::optional<ArchiveMember> FindMember(const PlaceInArchive& place);

/// Whether there is a file or a folder, on the disk or in an archive.
bool IsThere(const std::filesystem::path& path);

/// Writes an archive that appears whole, at Commit.
class ArchiveWriter {
 public:
  explicit ArchiveWriter(const std::filesystem::path& path) : file_(path) {}
  /// InputError for names of more than 100 bytes, unless a '/' leaves at most 100 behind it and 155 before it, and for
  /// 8 GiB and more.
  void Add(const std::string& name, std::span<const std::byte> bytes);
  void Commit();

 private:
  AtomicFile file_;
};

}  // namespace antiphon
