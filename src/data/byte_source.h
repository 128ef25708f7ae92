// Bytes of a table, from a memory map, from memory or out of gzip, behind one buffer that parsers walk over.
//
// Offsets count bytes of the (decompressed) content. Threads: one per source. Errors: InputError naming the file and
// the byte for a read past the end or for broken gzip data; IoError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace antiphon::data {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// The next byte without taking it; -1 at the end.
  int Peek() { return cursor_ < end_ || Refill() ? static_cast<unsigned char>(*cursor_) : -1; }
  /// Takes the next byte; -1 at the end.
  int Get() {
    const int c = Peek();
    if (c >= 0) ++cursor_;
    return c;
  }
  /// Takes exactly n bytes; InputError if there are fewer.
  void Read(void* out, size_t n);
  /// Reads a value of plain memory layout (little endian).
  template <class T>
  T Read() {
    T value;
    Read(&value, sizeof value);
    return value;
  }
  /// Takes n bytes without looking at them.
  void Skip(uint64_t n);
  /// Takes the token up to the next blank, and that blank if it is a space; "" at the end. At most `limit` bytes.
  std::string Token(size_t limit = 1 << 16);
  /// Skips blanks within the line.
  void SkipSpaces();

  uint64_t offset() const { return passed_ + static_cast<uint64_t>(cursor_ - begin_); }
  /// An upper bound of what can still come: exact for plain files, by deflate's largest ratio for gzip.
  virtual uint64_t BytesLeftAtMost() const = 0;
  /// Throws InputError unless `needed` bytes can still come; `what` names the value that needs them.
  void Require(uint64_t needed, std::string_view what) const;

  /// InputError "'x.ark', byte 17: message".
  [[noreturn]] void Fail(std::string_view message) const;
  const std::string& name() const { return name_; }

 protected:
  explicit ByteSource(std::string name) : name_(std::move(name)) {}
  /// Makes at least one more byte available; false at the end.
  virtual bool Refill() = 0;

  const char* begin_ = nullptr;
  const char* cursor_ = nullptr;
  const char* end_ = nullptr;
  uint64_t passed_ = 0;  // bytes before begin_

 private:
  std::string name_;
};

/// Over memory that outlives it, from `offset` on. InputError if the offset lies beyond the end.
std::unique_ptr<ByteSource> MakeMemorySource(std::span<const std::byte> bytes, std::string name, uint64_t offset = 0);

/// Opens a file; gzip is recognised by its first bytes.
std::unique_ptr<ByteSource> OpenByteSource(const std::filesystem::path& path);

}  // namespace antiphon::data
