// Files that grow by whole records and can be cut back to a known position: metrics and TensorBoard events.
//
// Errors: IoError naming the file and the system's reason. A record that does not fit (disk full) is cut off again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/file_descriptor.h"

namespace antiphon::report {

/// Opens (making folders and the file as needed), truncates to `keep_bytes` and places itself there.
/// Throws IoError too if the file is shorter than that.
FileDescriptor OpenForAppending(const std::filesystem::path& path, uint64_t keep_bytes);
/// Writes all of `bytes` at `position`, or nothing.
void AppendWhole(int fd, const std::filesystem::path& path, uint64_t position, std::string_view bytes);

}  // namespace antiphon::report
