// Gzip (RFC 1952): recognised, unpacked and made in one place. Members may stand one behind the other in a file.
//
// Threads: one per Gunzip; functions are pure. Errors: InputError for data that are broken or end too early.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace antiphon {

/// True if `bytes` begin with gzip's mark.
bool IsGzip(std::span<const std::byte> bytes);

/// Unpacks piece by piece. `packed` outlives it.
class Gunzip {
 public:
  explicit Gunzip(std::span<const std::byte> packed);
  ~Gunzip();

  /// Fills `out` as far as there is something; returns how many bytes, 0 at the end.
  size_t Read(std::span<char> out);
  /// An upper bound of what can still come, by deflate's largest ratio.
  uint64_t BytesLeftAtMost() const;

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

/// Quick for what is looked at once, small for what stays.
enum class GzipEffort { kQuick, kSmall };
/// `bytes`, of less than 4 GB, as one member.
std::string Gzip(std::string_view bytes, GzipEffort effort);

/// Whole file as bytes, unpacked if it begins with the mark, whatever its name. Throws IoError, or InputError naming
/// the file.
std::string ReadMaybeGzipped(const std::filesystem::path& path);

}  // namespace antiphon
