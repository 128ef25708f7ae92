// How the rows of a minibatch follow one another in time.
//
// Rows are time-major: row t·streams + s is frame t of stream s, so that one time step is a block of `streams`
// consecutive rows and a shift by one frame is a shift by `streams` rows. A stream is a piece (chunk) of an utterance,
// or nothing at all; pieces that are shorter than the others are padded at their end, and padded frames count for
// nothing. Pieces carry the frames of their utterance before and after that the network's outputs need
// (base/time_context.h), the first and the last frame of the utterance standing for those beyond.
//
// Threads: a value; what the spans see belongs to whoever made the minibatch.
#pragma once

#include <cstdint>
#include <span>

namespace antiphon {

struct SequenceLayout {
  int streams = 1;
  /// Output frames of every stream, padding included.
  int frames = 0;
  /// [streams] 1 where the piece is its utterance's first, so that recurrent states start from zero; 0 where it goes on
  /// where the stream's last minibatch ended. Empty: all begin.
  std::span<const uint8_t> begins = {};
  /// [streams] output frames that count, from the first one on. Empty: all.
  std::span<const int32_t> lengths = {};

  bool Begins(int stream) const { return begins.empty() || begins[static_cast<size_t>(stream)] != 0; }
  int Padding(int stream) const { return lengths.empty() ? 0 : frames - lengths[static_cast<size_t>(stream)]; }
};

}  // namespace antiphon
