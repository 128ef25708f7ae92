// Text files that may be compressed.
#pragma once

#include <filesystem>
#include <string>

namespace antiphon::decode {

/// Whole file as bytes, unpacked if it begins with the gzip mark, whatever its name. Throws IoError, or InputError if
/// the compressed data are broken or cut short.
std::string ReadMaybeGzipped(const std::filesystem::path& path);

}  // namespace antiphon::decode
