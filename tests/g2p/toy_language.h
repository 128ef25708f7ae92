// A language with rules that a model can learn exactly: "sh" is one phone, "x" is two, a final "e" is silent, and "c"
// is S before "e" and "i", K elsewhere.
#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "g2p/entries.h"

namespace antiphon::g2p {

inline std::vector<std::string> SayToy(const std::string& word) {
  std::vector<std::string> phones;
  for (size_t i = 0; i < word.size(); ++i) {
    const char letter = word[i];
    const char next = i + 1 < word.size() ? word[i + 1] : '\0';
    if (letter == 's' && next == 'h') {
      phones.push_back("SH");
      ++i;
    } else if (letter == 'x') {
      phones.insert(phones.end(), {"K", "S"});
    } else if (letter == 'c') {
      phones.push_back(next == 'e' || next == 'i' ? "S" : "K");
    } else if (letter == 'e' && next == '\0' && !phones.empty()) {
      continue;
    } else {
      phones.emplace_back(1, static_cast<char>(letter - 'a' + 'A'));
    }
  }
  return phones;
}

inline std::vector<std::string> ToyWords(size_t count, uint64_t seed) {
  const std::vector<std::string> onsets = {"b", "c", "d", "f", "l", "m", "s", "sh", "t"};
  const std::vector<std::string> nuclei = {"a", "e", "i", "o"};
  const std::vector<std::string> codas = {"", "n", "x", "sh", "ne", "ce"};
  Rng rng(seed);
  const auto one = [&](const std::vector<std::string>& of) { return of[rng.Below(of.size())]; };
  std::vector<std::string> words;
  while (words.size() < count) {
    std::string word;
    for (size_t syllables = 1 + rng.Below(3); syllables > 0; --syllables) word += one(onsets) + one(nuclei);
    words.push_back(word + one(codas));
  }
  return words;
}

inline std::vector<Entry> ToyEntries(size_t count, uint64_t seed) {
  std::vector<Entry> entries;
  for (const std::string& word : ToyWords(count, seed)) entries.push_back({word, SayToy(word)});
  return entries;
}

}  // namespace antiphon::g2p
