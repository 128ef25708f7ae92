// How long an MP3 is, of which libsndfile guesses it: by the rate of its first frame, unless that one tells the length.
// Of a stream with a varying rate it guesses wrong, and reads no further than it guessed.
//
// Units: frames of MPEG (576 or 1152 samples), bytes. Threads: pure functions. Errors: none but for memory.
// Source: ISO/IEC 11172-3, 13818-3 (headers of frames); ID3v2.4 (tags before them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace antiphon::feat {

struct MpegFrames {
  size_t begin = 0;           // of the first
  bool tells_length = false;  // the first says how many follow; they are not counted then
  int64_t count = 0;          // whole ones; 0: it is no layer III, or of free format
};
MpegFrames FindMpegFrames(std::span<const std::byte> file);

/// A frame without sound that tells how many follow, as many encoders begin with ("Xing"). `first`: the first of them.
std::string MpegLengthFrame(std::span<const std::byte> first, int64_t count);

}  // namespace antiphon::feat
