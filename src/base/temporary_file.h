// Names of files that are being written, and what becomes of those whose writer was killed.
//
// A file under way stands beside the one that it will replace as NAME.antiphon-HOST-PID.tmp. Whoever next writes into
// the folder removes those whose process is gone; those of other machines are left alone.
#pragma once

#include <filesystem>

namespace antiphon {

/// Where this process writes what is to become `path`.
std::filesystem::path TemporaryPath(const std::filesystem::path& path);

/// Removes what dead processes of this machine left half-written in `folder`; never throws for what it cannot remove.
void RemoveStaleTemporaries(const std::filesystem::path& folder);

}  // namespace antiphon
