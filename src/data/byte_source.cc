#include "data/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"

namespace antiphon::data {
namespace {

// Deflate cannot compress better than this (zlib's technical details), so that a size can be refused before it is
// believed.
constexpr uint64_t kLargestDeflateRatio = 1032;

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
  explicit GzipSource(MappedFile file) : ByteSource(file.path().string()), file_(std::move(file)), buffer_(1 << 18) {
    // 15 + 16: the largest window, gzip framing.
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  uint64_t BytesLeftAtMost() const override {
    const uint64_t compressed = file_.bytes().size() - taken_ + stream_.avail_in;
    return static_cast<uint64_t>(end_ - cursor_) + (compressed + 64) * kLargestDeflateRatio;
  }

 private:
  bool Refill() override {
    passed_ += static_cast<uint64_t>(end_ - begin_);
    begin_ = cursor_ = end_ = buffer_.data();
    stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_out = static_cast<uInt>(buffer_.size());
    while (!done_ && stream_.avail_out == buffer_.size()) Inflate();
    end_ = buffer_.data() + (buffer_.size() - stream_.avail_out);
    return end_ > begin_;
  }

  void Inflate() {
    if (stream_.avail_in == 0) {
      const size_t n = std::min<size_t>(file_.bytes().size() - taken_, 1 << 20);
      if (n == 0) Fail("the gzip data end too early: the file was cut short");
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(file_.bytes().data() + taken_));
      stream_.avail_in = static_cast<uInt>(n);
      taken_ += n;
    }
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      // Several members may follow one another (cat a.gz b.gz).
      done_ = stream_.avail_in == 0 && taken_ == file_.bytes().size();
      if (!done_ && inflateReset(&stream_) != Z_OK) Fail("broken gzip data");
    } else if (result != Z_OK) {
      Fail(std::string("broken gzip data (") + (stream_.msg != nullptr ? stream_.msg : "no reason given") + ")");
    }
  }

  MappedFile file_;
  std::vector<char> buffer_;
  z_stream stream_{};
  size_t taken_ = 0;  // compressed bytes given to zlib
  bool done_ = false;
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

bool IsGzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

std::string GzipCompress(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  CHECK_LE(bytes.size(), std::numeric_limits<uInt>::max());
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  CHECK_EQ(result, Z_STREAM_END);
  return out;
}

}  // namespace antiphon::data
