// Names of files that are being written, and what becomes of those whose writer was killed.
//
// A file under way stands beside the one that it will replace as NAME.antiphon-HOST-PID-NUMBER.tmp. Whoever next writes
// into the folder removes those whose process is gone; those of other machines are left alone. Containers share a
// host's name and have process ids of their own: a file that somebody has locked (flock) is left alone, too, and so is
// one on a file system without locks.
#pragma once

#include <filesystem>

#include "base/file_descriptor.h"

namespace antiphon {

/// Where this process writes what is to become `path`: always the same name.
std::filesystem::path TemporaryPath(const std::filesystem::path& path);

/// Another name at each call, for a file of its own: of one that no other thread and no process of that id elsewhere
/// takes, but by rare chance.
std::filesystem::path NewTemporaryPath(const std::filesystem::path& path);

/// Keeps others from removing the open temporary file for as long as `file`, or what is opened of the same name and
/// locked before that is closed, stays open. False: it was removed before that.
bool LockTemporary(const FileDescriptor& file);

/// Removes what dead processes of this machine left half-written in `folder`; never throws for what it cannot remove.
void RemoveStaleTemporaries(const std::filesystem::path& folder);

}  // namespace antiphon
