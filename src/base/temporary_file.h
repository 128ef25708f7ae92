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

/// Where to write what is to become `path`: another name at each call, which no other thread, and no process of that id
/// elsewhere, takes but by rare chance.
std::filesystem::path NewTemporaryPath(const std::filesystem::path& path);

/// Locks the open temporary file, so that others do not remove it while `file` is open. A second descriptor that is
/// locked before the first is closed takes the lock over. False: it had been removed already.
bool LockTemporary(const FileDescriptor& file);

/// Removes what dead processes of this machine left half-written in `folder`; never throws for what it cannot remove.
void RemoveStaleTemporaries(const std::filesystem::path& folder);

}  // namespace antiphon
