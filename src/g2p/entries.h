// What grapheme-to-phoneme conversion learns from: words as letters, pronunciations as phones.
//
// A letter is one code point of the word in Unicode's form C, so that "é" is one letter however it was typed.
// Threads: pure functions. Errors: InputError naming a word that is not UTF-8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hmm/lexicon.h"

namespace antiphon::g2p {

struct Entry {
  std::string word;
  std::vector<std::string> phones;
};

struct Entries {
  std::vector<Entry> spoken;          // in the lexicon's order
  std::vector<std::string> left_out;  // words that name no spelling: <UNK>, [noise], or said with silence phones
};

/// The lexicon's words that are spelt as they are said. Probabilities are not used: a variant is a variant.
Entries EntriesOf(const hmm::Lexicon& lexicon);

/// The letters of a word, each as UTF-8.
std::vector<std::string> LettersOf(std::string_view word);

}  // namespace antiphon::g2p
