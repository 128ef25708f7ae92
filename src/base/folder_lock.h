// Holds a folder for one process.
//
// The lock is a file that stays; the system lets go of it when the process ends, however it ends. Threads: one owner.
// Errors: IoError if the file cannot be made or locked; UsageError, made by the caller's words, if another process
// holds it.
#pragma once

#include <filesystem>
#include <string>

#include "base/file_descriptor.h"

namespace antiphon {

class FolderLock {
 public:
  /// Makes the folder if it is missing, and locks its file `name`. `advice`: what to do if somebody holds it.
  FolderLock(const std::filesystem::path& folder, const std::string& name, const std::string& advice);
  /// Whether a process holds it now; false if the folder has no such file.
  static bool IsHeld(const std::filesystem::path& folder, const std::string& name);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  FileDescriptor file_;
};

}  // namespace antiphon
