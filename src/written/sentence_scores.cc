#include "written/sentence_scores.h"

#include <vector>

#include "base/utf8.h"

namespace antiphon::written {
namespace {

void Count(bool wanted, bool found, FoundPlaces& places) {
  places.wanted += wanted ? 1 : 0;
  places.found += found ? 1 : 0;
  places.right += wanted && found ? 1 : 0;
}

}  // namespace

SentenceScores ScoreSentences(const SentenceModel& sentences, std::span<const PunctuatedWord> text) {
  std::vector<SpokenWord> words;
  for (const PunctuatedWord& word : text) words.push_back({word.word});
  const WrittenText written = WrittenForm({}, sentences, /*fold_case=*/true).Write(words, /*ended=*/true);
  SentenceScores scores;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string& token = written.tokens[i].text;
    Count(EndsSentence(text[i].mark), token.ends_with('.') || token.ends_with('?'), scores.ends);
    Count(LowerCase(text[i].spelling) != text[i].spelling, LowerCase(token) != token, scores.capitals);
  }
  return scores;
}

}  // namespace antiphon::written
