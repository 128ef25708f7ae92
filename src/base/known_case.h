// How a vocabulary writes a word that somebody writes in other letters, small or capital.
#pragma once

#include <string>

#include "base/utf8.h"

namespace antiphon {

/// `word`, if known(word); otherwise the word in small letters, or in capitals, if that is known; otherwise `word`.
template <class Known>
std::string InKnownCase(const std::string& word, Known known) {
  if (known(word)) return word;
  for (std::string other : {LowerCase(word), UpperCase(word)}) {
    if (known(other)) return other;
  }
  return word;
}

}  // namespace antiphon
