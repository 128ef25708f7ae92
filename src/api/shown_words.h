// Which words of a hypothesis are shown: all, or where whole phrases alone are allowed, what of it they are.
//
// Words between phrases stand together as one decode::kOtherWords where other words may be said; where they may not,
// what remains of a phrase that was cut off is left out.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/search/phrase_list.h"

namespace antiphon {

/// Words begin … end − 1 of the hypothesis, shown as one.
struct ShownWord {
  size_t begin = 0;
  size_t end = 0;
  bool other = false;  // as decode::kOtherWords
};

/// `phrases`: null: all words are shown. `ended`: no more words will come.
std::vector<ShownWord> ShownWords(std::span<const int32_t> words, const decode::PhraseList* phrases, bool ended);

}  // namespace antiphon
