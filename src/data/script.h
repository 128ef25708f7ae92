// Names of tables and the lines of scp scripts.
//
// Threads: pure functions. Errors: UsageError for a table name that cannot be meant; InputError with file:line for a
// line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace antiphon::data {

/// "ark:x.ark", "scp:x.scp" or a bare path.
struct TableName {
  bool script = false;
  std::filesystem::path path;
};
TableName ParseTableName(std::string_view name);

/// Rows or columns from `first` to `last`, both inclusive, from 0.
struct IndexRange {
  int64_t first = 0;
  int64_t last = 0;
};

/// "PATH[:OFFSET][ROWS[,COLUMNS]]".
struct ObjectReference {
  std::filesystem::path path;
  std::optional<uint64_t> offset;
  std::optional<IndexRange> rows;
  std::optional<IndexRange> cols;
};
ObjectReference ParseObjectReference(std::string_view text);

struct ScriptEntry {
  std::string key;
  ObjectReference object;
};
/// All lines; paths are resolved (see data/archive.h), with a warning where a file of that name beside the script takes
/// the place of one elsewhere. Duplicate keys are errors.
std::vector<ScriptEntry> ReadScript(const std::filesystem::path& path);

/// Bytes that each object takes in its file: up to the next one that is named there, or to the end; 1 where that cannot
/// be told.
std::vector<int64_t> StoredBytes(const std::vector<ScriptEntry>& entries);

/// `path` if it is there, else the same from `folder`, else its name in `folder`; `path` again if nothing is there.
std::filesystem::path LocateBeside(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace antiphon::data
