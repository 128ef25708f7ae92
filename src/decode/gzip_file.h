// Text files that may be compressed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace antiphon::decode {

/// Whole file as bytes, unpacked if it begins with the gzip mark, whatever its name. Throws IoError, or InputError if
/// the compressed data are broken or cut short.
std::string ReadMaybeGzipped(const std::filesystem::path& path);

/// `text` as a gzip member; members may stand one behind the other in a file.
std::string Gzip(std::string_view text);

}  // namespace antiphon::decode
