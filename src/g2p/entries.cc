#include "g2p/entries.h"

#include <algorithm>

#include "base/utf8.h"

namespace antiphon::g2p {
namespace {

// As recognisers write what is no word: <UNK>, [laughter], !SIL.
bool IsMark(const std::string& word) {
  return (word.front() == '<' && word.back() == '>') || (word.front() == '[' && word.back() == ']') || word == "!SIL";
}

}  // namespace

Entries EntriesOf(const hmm::Lexicon& lexicon) {
  Entries entries;
  const hmm::PhoneSet& phones = lexicon.phones();
  for (const hmm::Pronunciation& pronunciation : lexicon.entries()) {
    const std::string& word = lexicon.Word(pronunciation.word);
    const bool silent = std::any_of(pronunciation.phones.begin(), pronunciation.phones.end(),
                                    [&](int32_t phone) { return phones.IsSilence(phone); });
    if (silent || IsMark(word)) {
      if (entries.left_out.empty() || entries.left_out.back() != word) entries.left_out.push_back(word);
      continue;
    }
    Entry entry{word, {}};
    for (const int32_t phone : pronunciation.phones) entry.phones.push_back(phones.BaseName(phone));
    entries.spoken.push_back(std::move(entry));
  }
  return entries;
}

std::vector<std::string> LettersOf(std::string_view word) {
  std::vector<std::string> letters;
  for (const char32_t c : DecodeUtf8(ComposeUtf8(word))) letters.push_back(EncodeUtf8({c}));
  return letters;
}

}  // namespace antiphon::g2p
