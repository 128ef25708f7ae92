// Which part of a text was said in which part of a recording, from words that a recogniser found there.
//
// Where text and recognised words agree for several words on end, they belong together (anchors). Cuts are made between
// two words of an anchor, best in a pause; what lies between two cuts is a stretch: some words of the text and the
// frames in which they should be. Stretches without a disagreement are sure, the others are where the recogniser was
// wrong, or where text or speech lack something.
//
// Units: frames of the recogniser. Threads: pure functions. Memory and time: proportional to the text where words
// agree; between anchors to the product of words that do not, up to a limit beyond which they are left unmatched.
// Source: Moreno, Joerg, Van Thong, Glickman, A recursive algorithm for the forced alignment of very long audio
// segments, ICSLP 1998; the search for unique sequences as in Cohen's patience diff.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace antiphon::pipeline {

/// As a recogniser found it; in the order of time.
struct FoundWord {
  int32_t word = 0;
  int begin_frame = 0;
  int end_frame = 0;
};

struct TextStretch {
  int first_word = 0;  // of the text
  int num_words = 0;
  int begin_frame = 0;
  int end_frame = 0;
  bool sure = false;  // the recogniser found just these words here

  bool operator==(const TextStretch&) const = default;
};

/// Pairs of positions (in the text, among the found words) that agree, ascending in both. As many as can be, except
/// where large parts differ.
std::vector<std::pair<int, int>> MatchWords(std::span<const int32_t> text, std::span<const int32_t> found);

/// All words and all `num_frames` frames in order, without gaps. `usual_frames`: how long a sure stretch should be.
std::vector<TextStretch> CutAtAnchors(std::span<const int32_t> text, std::span<const FoundWord> found, int num_frames,
                                      int usual_frames);

}  // namespace antiphon::pipeline
