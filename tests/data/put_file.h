// Writes a file without waiting for the disk, for tests that write thousands.
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

namespace antiphon::data {

inline void PutFile(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), std::ssize(bytes));
}

}  // namespace antiphon::data
