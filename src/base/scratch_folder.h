// A folder that only this user may enter, for as long as the object lives.
//
// Threads: one per object. Errors: IoError.
#pragma once

#include <filesystem>

namespace antiphon {

class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace antiphon
