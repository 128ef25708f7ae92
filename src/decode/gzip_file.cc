#include "decode/gzip_file.h"

#include <zlib.h>

#include <memory>

#include "base/error.h"
#include "base/file.h"

namespace antiphon::decode {
namespace {

// Added to zlib's window size: the data are framed as gzip.
constexpr int kGzip = 16;

std::string Unpack(const std::string& packed) {
  z_stream stream{};
  if (inflateInit2(&stream, MAX_WBITS + kGzip) != Z_OK) throw InternalError("zlib does not start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  std::string buffer(1 << 18, '\0');
  while (true) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    text.append(buffer, 0, buffer.size() - stream.avail_out);
    if (status == Z_STREAM_END) {
      if (stream.avail_in == 0) return text;
      // Members may be concatenated.
      if (inflateReset(&stream) != Z_OK) throw InputError("broken gzip data");
      continue;
    }
    if (status != Z_OK) throw InputError("broken or truncated gzip data; fetch the file again");
  }
}

}  // namespace

std::string ReadMaybeGzipped(const std::filesystem::path& path) {
  std::string bytes = ReadFile(path);
  if (!bytes.starts_with("\x1f\x8b")) return bytes;
  return WithContext([&] { return Unpack(bytes); }, [&] { return path.string(); });
}

std::string Gzip(std::string_view text) {
  z_stream stream{};
  constexpr int kMemoryLevel = 8;
  if (deflateInit2(&stream, 3, Z_DEFLATED, MAX_WBITS + kGzip, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw InternalError("zlib does not start");
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, deflateEnd);
  std::string packed(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw InternalError("zlib does not finish");
  packed.resize(packed.size() - stream.avail_out);
  return packed;
}

}  // namespace antiphon::decode
