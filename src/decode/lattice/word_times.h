// When each word and phone of a hypothesis was said.
//
// A path through the graph tells phones to the frame, but its words stand anywhere within their pronunciation. Here
// each word is matched with one of its pronunciations in the sequence of phones, with optional pauses between words.
// What the search left unfinished at the end (no final state was reached) counts as part of the last word. Frames at
// the beginning that belong to a phone before a cut (Decoder::CutBefore) are no phone's. A path that goes on may be
// ahead of its phones: words that none is said of yet begin at its end and have no frames.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decode/lattice/lattice.h"
#include "hmm/hmm_model.h"
#include "hmm/lexicon.h"

namespace antiphon::decode {

struct TimedPhone {
  int32_t phone = 0;
  int begin_frame = 0;
  int num_frames = 0;
  int32_t word_index = -1;  // into the path's words; −1: a pause
};

struct TimedWord {
  int32_t word = 0;
  int begin_frame = 0;
  int num_frames = 0;
};

struct PathTimes {
  std::vector<TimedPhone> phones;
  std::vector<TimedWord> words;
};

/// Throws InternalError if the phones are not a way to say the words.
PathTimes FindTimes(const hmm::HmmModel& model, const hmm::Lexicon& lexicon, const LatticePath& path);

}  // namespace antiphon::decode
