#include "feat/mpeg_frames.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace antiphon::feat {
namespace {

constexpr size_t kHeaderBytes = 4;
constexpr size_t kId3Bytes = 10;
constexpr int kMpeg1 = 3;     // as headers write the version
constexpr int kLayer3 = 1;    // and the layer
constexpr int kMono = 3;      // and the channels
constexpr int kWideRate = 9;  // index of a rate whose frames have room for the length

int At(std::span<const std::byte> bytes, size_t i) { return std::to_integer<int>(bytes[i]); }

std::string_view TextAt(std::span<const std::byte> bytes, size_t begin, size_t count) {
  if (begin + count > bytes.size()) return {};
  return {reinterpret_cast<const char*>(bytes.data()) + begin, count};
}

// Of a frame of layer III.
struct Header {
  int version = 0;
  int rate_index = 0;
  int frequency_index = 0;
  bool is_padded = false;
  int channels = 0;

  bool IsOfStream(const Header& first) const {
    return version == first.version && frequency_index == first.frequency_index &&
           (channels == kMono) == (first.channels == kMono);
  }
  size_t Bytes() const {
    static constexpr std::array<int, 15> kOf1 = {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320};
    static constexpr std::array<int, 15> kOf2 = {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160};
    static constexpr std::array<int, 3> kHz = {44100, 48000, 32000};
    const auto place = static_cast<size_t>(rate_index);
    const int rate = 1000 * (version == kMpeg1 ? kOf1[place] : kOf2[place]);
    const int hz = kHz[static_cast<size_t>(frequency_index)] / (version == kMpeg1 ? 1 : version == 2 ? 2 : 4);
    return static_cast<size_t>((version == kMpeg1 ? 144 : 72) * rate / hz) + (is_padded ? 1 : 0);
  }
  // Where the length stands: behind what the channels need.
  size_t LengthAt() const {
    const size_t channels_bytes = version == kMpeg1 ? (channels == kMono ? 17 : 32) : (channels == kMono ? 9 : 17);
    return kHeaderBytes + channels_bytes;
  }
};

std::optional<Header> HeaderAt(std::span<const std::byte> file, size_t at) {
  if (at + kHeaderBytes > file.size() || At(file, at) != 0xff || (At(file, at + 1) & 0xe0) != 0xe0) return std::nullopt;
  const int second = At(file, at + 1), third = At(file, at + 2);
  const Header header{.version = second >> 3 & 3,
                      .rate_index = third >> 4,
                      .frequency_index = third >> 2 & 3,
                      .is_padded = (third >> 1 & 1) != 0,
                      .channels = At(file, at + 3) >> 6};
  const bool is_known = header.version != 1 && (second >> 1 & 3) == kLayer3 && header.rate_index != 0 &&
                        header.rate_index != 15 && header.frequency_index != 3;
  return is_known ? std::optional(header) : std::nullopt;
}

// Behind tags with names and pictures, of ID3v2 and ID3v1, that stand here.
size_t BehindTags(std::span<const std::byte> file, size_t at) {
  constexpr size_t kOldTagBytes = 128;
  for (;;) {
    if (TextAt(file, at, 3) == "TAG") {
      at += kOldTagBytes;
    } else if (TextAt(file, at, 3) == "ID3" && at + kId3Bytes <= file.size()) {
      size_t length = 0;
      for (size_t i = 6; i < kId3Bytes; ++i) length = length << 7 | static_cast<size_t>(At(file, at + i) & 0x7f);
      const bool has_footer = (At(file, at + 5) & 0x10) != 0;
      at += kId3Bytes + length + (has_footer ? kId3Bytes : 0);
    } else {
      return std::min(at, file.size());
    }
  }
}

// Of the next frame from `at` on that another one follows, or the end of the file.
size_t NextFrame(std::span<const std::byte> file, size_t at) {
  for (; at + kHeaderBytes <= file.size(); ++at) {
    const auto header = HeaderAt(file, at);
    if (!header) continue;
    const size_t next = at + header->Bytes();
    if (next == file.size()) return at;
    if (const auto following = HeaderAt(file, next); following && following->IsOfStream(*header)) return at;
  }
  return file.size();
}

// What a first frame without sound says.
struct Tag {
  bool is_there = false;
  int64_t count = 0;  // of the frames behind it; 0: it does not tell, or its encoder was stopped
};

Tag TagOf(std::span<const std::byte> file, size_t at, const Header& header) {
  // libsndfile does not read what this one tells.
  if (TextAt(file, at + kHeaderBytes + 32, 4) == "VBRI") return {.is_there = true};
  const size_t tag = at + header.LengthAt();
  const std::string_view name = TextAt(file, tag, 4);
  if ((name != "Xing" && name != "Info") || tag + 12 > file.size()) return {};
  Tag told{.is_there = true};
  constexpr int kHasFrames = 1;
  for (size_t i = 8; i < 12; ++i) told.count = told.count << 8 | At(file, tag + i);
  if ((At(file, tag + 7) & kHasFrames) == 0) told.count = 0;
  return told;
}

}  // namespace

MpegFrames FindMpegFrames(std::span<const std::byte> file) {
  MpegFrames frames;
  size_t at = BehindTags(file, 0);
  std::optional<Header> first = HeaderAt(file, at);
  if (!first) {
    at = NextFrame(file, at);
    first = HeaderAt(file, at);
    if (!first) return frames;
  }
  const Tag tag = TagOf(file, at, *first);
  if (tag.is_there) at += first->Bytes();
  size_t begin = at;  // of the run
  const auto end_run = [&] {
    if (at > begin) frames.runs.push_back(file.subspan(begin, at - begin));
  };
  while (at < file.size()) {
    const auto header = HeaderAt(file, at);
    if (header && header->IsOfStream(*first)) {
      if (at + header->Bytes() > file.size()) break;
      ++frames.count;
      at += header->Bytes();
      continue;
    }
    end_run();
    at = begin = NextFrame(file, BehindTags(file, at));
    const auto next = HeaderAt(file, at);
    if (!next || next->IsOfStream(*first)) continue;
    frames.is_one_sound = false;
    return frames;
  }
  end_run();
  // Of files that were put one behind the other, it tells how long the first is.
  frames.tells_length = tag.count > 0 && frames.count <= tag.count + 1;
  return frames;
}

std::string MpegLengthFrame(std::span<const std::byte> first, int64_t count) {
  Header header = HeaderAt(first, 0).value();
  header.rate_index = kWideRate;
  header.is_padded = false;
  std::string frame(header.Bytes(), '\0');
  for (size_t i = 0; i < kHeaderBytes; ++i) frame[i] = static_cast<char>(At(first, i));
  frame[1] = static_cast<char>(At(first, 1) | 1);  // without a checksum
  frame[2] = static_cast<char>(header.rate_index << 4 | header.frequency_index << 2);
  const size_t tag = header.LengthAt();
  frame.replace(tag, 4, "Xing");
  frame[tag + 7] = 1;
  for (size_t i = 0; i < 4; ++i) frame[tag + 8 + i] = static_cast<char>(count >> (24 - 8 * i));
  return frame;
}

}  // namespace antiphon::feat
