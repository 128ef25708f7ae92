// The frames of an MP3. libsndfile takes from a tag in the first one how long the sound is; without one it guesses by
// the size of the first frame, and reads no further than it guessed. Of a rate that varies it guesses wrong. Here the
// frames are counted.
//
// Units: frames of MPEG (576 or 1152 samples), bytes. Threads: pure functions. Errors: none but for memory.
// Source: ISO/IEC 11172-3, 13818-3 (headers of frames); ID3v2.4 (tags before them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace antiphon::feat {

struct MpegFrames {
  bool tells_length = false;  // a tag before the first says how many follow (Xing), and no more do
  bool is_one_sound = true;   // false: its sampling rate, or its number of channels, changes on the way
  int64_t count = 0;          // whole ones with sound; 0: it is no layer III, or of free format
  std::vector<std::span<const std::byte>> runs;  // them, without what lies between: tags, damage
};
/// In a file, whatever else it holds.
MpegFrames FindMpegFrames(std::span<const std::byte> file);

/// A frame without sound that tells how many follow, as many encoders begin with. `first`: the first of them. A decoder
/// that knows the length leaves out its own delay, too, 529 samples at the beginning.
std::string MpegLengthFrame(std::span<const std::byte> first, int64_t count);

}  // namespace antiphon::feat
