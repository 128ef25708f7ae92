#include "api/shown_words.h"

namespace antiphon {

std::vector<ShownWord> ShownWords(std::span<const int32_t> words, const decode::PhraseList* phrases, bool ended) {
  const std::vector<bool> within =
      phrases != nullptr ? phrases->InPhrases(words, ended) : std::vector<bool>(words.size(), true);
  const bool others = phrases != nullptr && phrases->others();
  std::vector<ShownWord> shown;
  for (size_t i = 0; i < words.size(); ++i) {
    if (within[i]) {
      shown.push_back({i, i + 1, false});
    } else if (!shown.empty() && shown.back().other && shown.back().end == i) {
      shown.back().end = i + 1;
    } else if (others) {
      shown.push_back({i, i + 1, true});
    }
  }
  return shown;
}

}  // namespace antiphon
