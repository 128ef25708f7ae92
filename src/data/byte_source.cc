#include "data/byte_source.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/gzip.h"

namespace antiphon::data {
namespace {

bool IsBlank(int c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f'; }

class MemorySource : public ByteSource {
 public:
  MemorySource(std::span<const std::byte> bytes, std::string name, uint64_t offset) : ByteSource(std::move(name)) {
    begin_ = cursor_ = reinterpret_cast<const char*>(bytes.data());
    end_ = begin_ + bytes.size();
    if (offset > bytes.size()) {
      Throw<InputError>(
          "'{}': there is no byte {}, the file has {} bytes; it was cut short or replaced after the script "
          "that points into it was written",
          this->name(), offset, bytes.size());
    }
    cursor_ += offset;
  }
  uint64_t BytesLeftAtMost() const override { return static_cast<uint64_t>(end_ - cursor_); }

 private:
  bool Refill() override { return false; }
};

class MappedSource : public MemorySource {
 public:
  explicit MappedSource(MappedFile file)
      : MemorySource(file.bytes(), file.path().string(), 0), file_(std::move(file)) {}

 private:
  MappedFile file_;
};

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(MappedFile file)
      : ByteSource(file.path().string()), file_(std::move(file)), unpacked_(file_.bytes()), buffer_(1 << 18) {}

  uint64_t BytesLeftAtMost() const override {
    return static_cast<uint64_t>(end_ - cursor_) + unpacked_.BytesLeftAtMost();
  }

 private:
  bool Refill() override {
    passed_ += static_cast<uint64_t>(end_ - begin_);
    begin_ = cursor_ = end_ = buffer_.data();
    try {
      end_ += unpacked_.Read(buffer_);
    } catch (const InputError& e) {
      Fail(e.what());
    }
    return end_ > begin_;
  }

  MappedFile file_;
  Gunzip unpacked_;
  std::vector<char> buffer_;
};

}  // namespace

void ByteSource::Read(void* out, size_t n) {
  char* to = static_cast<char*>(out);
  for (size_t got = 0; got < n;) {
    if (Peek() < 0) Fail(fmt::format("the file ends where {} more bytes were expected: it was cut short", n - got));
    const size_t part = std::min(n - got, static_cast<size_t>(end_ - cursor_));
    std::memcpy(to + got, cursor_, part);
    cursor_ += part;
    got += part;
  }
}

void ByteSource::Skip(uint64_t n) {
  while (n > 0) {
    if (Peek() < 0) Fail(fmt::format("the file ends where {} more bytes were expected: it was cut short", n));
    const uint64_t part = std::min(n, static_cast<uint64_t>(end_ - cursor_));
    cursor_ += part;
    n -= part;
  }
}

std::string ByteSource::Token(size_t limit) {
  std::string token;
  while (Peek() >= 0 && !IsBlank(Peek())) {
    if (token.size() == limit) Fail(fmt::format("a word of more than {} bytes: this is no table", limit));
    token.push_back(static_cast<char>(Get()));
  }
  if (Peek() == ' ') Get();
  return token;
}

void ByteSource::SkipSpaces() {
  while (Peek() == ' ' || Peek() == '\t' || Peek() == '\r') Get();
}

void ByteSource::Require(uint64_t needed, std::string_view what) const {
  if (needed <= BytesLeftAtMost()) return;
  Fail(fmt::format("{} would need {} bytes, but at most {} are left: the header is broken or the file was cut short",
                   what, needed, BytesLeftAtMost()));
}

void ByteSource::Fail(std::string_view message) const {
  Throw<InputError>("'{}', byte {}: {}", name_, offset(), message);
}

std::unique_ptr<ByteSource> MakeMemorySource(std::span<const std::byte> bytes, std::string name, uint64_t offset) {
  return std::make_unique<MemorySource>(bytes, std::move(name), offset);
}

std::unique_ptr<ByteSource> OpenByteSource(const std::filesystem::path& path) {
  MappedFile file(path);
  if (IsGzip(file.bytes())) return std::make_unique<GzipSource>(std::move(file));
  return std::make_unique<MappedSource>(std::move(file));
}

}  // namespace antiphon::data
