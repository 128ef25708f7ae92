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

namespace {

// The system would only say that something exists, or does not.
void RefuseDanglingLinks(const std::filesystem::path& path) {
  std::filesystem::path so_far;
  for (const std::filesystem::path& part : path) {
    so_far /= part;
    std::error_code none;
    if (!std::filesystem::is_symlink(std::filesystem::symlink_status(so_far, none))) continue;
    if (std::filesystem::status(so_far, none).type() != std::filesystem::file_type::not_found) continue;
    Throw<IoError>(
        "cannot make folder '{}': '{}' is a symbolic link to '{}', which is not there: make that, or remove the link",
        path.string(), so_far.string(), std::filesystem::read_symlink(so_far, none).string());
  }
}

}  // namespace

void MakeFolder(const std::filesystem::path& folder) {
  RefuseDanglingLinks(folder);
  std::error_code made;
  std::filesystem::create_directories(folder, made);
  if (made) ThrowIo("make folder", folder, made.value());
}

}  // namespace antiphon
