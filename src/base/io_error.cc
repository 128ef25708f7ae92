#include "base/io_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "base/error.h"

namespace antiphon {

void ThrowIo(std::string_view operation, const std::filesystem::path& path, int error, std::string_view when_full) {
  std::string advice;
  if (error == ENOSPC || error == EDQUOT) advice = fmt::format("; the disk is full: {}", when_full);
  if (error == EROFS || error == EACCES || error == EPERM) {
    advice = "; no permission here: check the rights or choose another folder";
  }
  if (error == ENOTDIR) advice = "; a file stands where a folder is needed: choose another name";
  Throw<IoError>("cannot {} '{}': {}{}", operation, path.string(), std::strerror(error), advice);
}

void MakeFolder(const std::filesystem::path& folder) {
  std::error_code made;
  std::filesystem::create_directories(folder, made);
  if (made) ThrowIo("make folder", folder, made.value());
}

}  // namespace antiphon
