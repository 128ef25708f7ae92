#include "base/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"

namespace antiphon {
namespace {

// Added to zlib's window size: the data are framed as gzip.
constexpr int kGzipFrame = 16;
// Deflate cannot compress better than this (zlib's technical details), so that a size can be refused before it is
// believed.
constexpr uint64_t kLargestDeflateRatio = 1032;
constexpr size_t kPiece = 1 << 20;

}  // namespace

bool IsGzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

struct Gunzip::Stream {
  std::span<const std::byte> packed;
  size_t taken = 0;  // bytes of `packed` that were given to zlib
  bool done = false;
  z_stream z{};
};

Gunzip::Gunzip(std::span<const std::byte> packed) : stream_(std::make_unique<Stream>()) {
  stream_->packed = packed;
  if (inflateInit2(&stream_->z, MAX_WBITS + kGzipFrame) != Z_OK) throw std::bad_alloc();
}

Gunzip::~Gunzip() { inflateEnd(&stream_->z); }

size_t Gunzip::Read(std::span<char> out) {
  Stream& s = *stream_;
  s.z.next_out = reinterpret_cast<Bytef*>(out.data());
  s.z.avail_out = static_cast<uInt>(out.size());
  while (!s.done && s.z.avail_out == out.size()) {
    if (s.z.avail_in == 0) {
      const size_t n = std::min(s.packed.size() - s.taken, kPiece);
      if (n == 0) throw InputError("the gzip data end too early: the file was cut short");
      s.z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(s.packed.data() + s.taken));
      s.z.avail_in = static_cast<uInt>(n);
      s.taken += n;
    }
    const int result = inflate(&s.z, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      s.done = s.z.avail_in == 0 && s.taken == s.packed.size();
      if (!s.done && inflateReset(&s.z) != Z_OK) throw InputError("broken gzip data");
    } else if (result != Z_OK) {
      Throw<InputError>("broken gzip data ({})", s.z.msg != nullptr ? s.z.msg : "no reason given");
    }
  }
  return out.size() - s.z.avail_out;
}

uint64_t Gunzip::BytesLeftAtMost() const {
  const uint64_t packed = stream_->packed.size() - stream_->taken + stream_->z.avail_in;
  return (packed + 64) * kLargestDeflateRatio;
}

std::string Gzip(std::string_view bytes, GzipEffort effort) {
  constexpr int kQuickLevel = 3, kSmallLevel = 6, kMemoryLevel = 8;
  CHECK_LE(bytes.size(), std::numeric_limits<uInt>::max());
  z_stream stream{};
  const int level = effort == GzipEffort::kQuick ? kQuickLevel : kSmallLevel;
  if (deflateInit2(&stream, level, Z_DEFLATED, MAX_WBITS + kGzipFrame, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, deflateEnd);
  std::string packed(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  CHECK_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  return packed;
}

std::string ReadMaybeGzipped(const std::filesystem::path& path) {
  std::string bytes = ReadFile(path);
  if (!IsGzip(std::as_bytes(std::span(bytes)))) return bytes;
  return WithContext(
      [&] {
        Gunzip unpacked(std::as_bytes(std::span(bytes)));
        std::string text, buffer(1 << 18, '\0');
        while (const size_t n = unpacked.Read(buffer)) text.append(buffer, 0, n);
        return text;
      },
      [&] { return fmt::format("'{}'", path.string()); });
}

}  // namespace antiphon
