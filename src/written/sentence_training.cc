#include "written/sentence_training.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace antiphon::written {
namespace {

constexpr int kFewestStops = 10;
constexpr std::u32string_view kStops = U".!…。！।؟?？";
constexpr std::u32string_view kQuestions = U"?？؟";
constexpr std::u32string_view kCommas = U",;:，、；：،";
constexpr std::u32string_view kWithin = U"'’.";  // between letters of one word: don't, U.S.

bool IsWordLetter(char32_t c) { return !IsPunctuation(c) && !IsBlank(c); }

Letters LettersOf(const std::string& spelling, bool& mixed) {
  const std::string small = LowerCase(spelling);
  mixed = false;
  if (small == spelling) return Letters::kSmall;
  const std::vector<char32_t> letters = DecodeUtf8(spelling);
  const std::string rest = EncodeUtf8({letters.begin() + 1, letters.end()});
  if (LowerCase(rest) == rest) return Letters::kCapital;
  mixed = UpperCase(spelling) != spelling;
  return Letters::kLarge;
}

class TextReader {
 public:
  std::vector<PunctuatedWord> Read(std::string_view text) {
    std::vector<char32_t> letters = DecodeUtf8(ComposeUtf8(text));
    std::erase_if(letters, IsInvisible);  // soft hyphens and the like, which transcripts lack as well
    for (size_t i = 0; i < letters.size(); ++i) {
      const char32_t c = letters[i];
      const bool joins = kWithin.find(c) != std::u32string_view::npos && !word_.empty() && i + 1 < letters.size() &&
                         IsWordLetter(letters[i + 1]);
      if (IsWordLetter(c) || joins) {
        word_.push_back(c == U'’' ? U'\'' : c);
        continue;
      }
      End();
      if (!words_.empty()) Note(c);
    }
    End();
    return std::move(words_);
  }

 private:
  void Note(char32_t c) {
    Mark& mark = words_.back().mark;
    if (kQuestions.find(c) != std::u32string_view::npos)
      mark = Mark::kQuestion;
    else if (kStops.find(c) != std::u32string_view::npos && mark != Mark::kQuestion)
      mark = Mark::kStop;
    else if (kCommas.find(c) != std::u32string_view::npos && mark == Mark::kNone)
      mark = Mark::kComma;
  }

  void End() {
    if (word_.empty()) return;
    PunctuatedWord word;
    word.spelling = EncodeUtf8(word_);
    word.word = LowerCase(word.spelling);
    word.letters = LettersOf(word.spelling, word.mixed);
    // "e.g. this": what ends in a full stop and goes on in small letters was an abbreviation.
    if (!words_.empty() && words_.back().mark == Mark::kStop && word.letters == Letters::kSmall) {
      words_.back().mark = Mark::kNone;
    }
    words_.push_back(std::move(word));
    word_.clear();
  }

  std::vector<char32_t> word_;
  std::vector<PunctuatedWord> words_;
};

// Words that are mostly written in a way of their own.
std::map<std::string, std::string, std::less<>> FindSpellings(const std::vector<PunctuatedWord>& words) {
  std::map<std::string, std::map<std::string, int>> counts;
  std::map<std::string, int> all;
  for (const PunctuatedWord& word : words) {
    ++all[word.word];
    if (word.mixed) ++counts[word.word][word.spelling];
  }
  std::map<std::string, std::string, std::less<>> spellings;
  for (const auto& [word, forms] : counts) {
    const auto most = std::ranges::max_element(forms, {}, [](const auto& form) { return form.second; });
    if (2 * most->second > all[word]) spellings.emplace(word, most->first);
  }
  return spellings;
}

}  // namespace

std::vector<PunctuatedWord> ReadPunctuated(std::string_view text) { return TextReader().Read(text); }

SentenceModel TrainSentences(const std::vector<PunctuatedWord>& words, const SentenceTraining& options) {
  const auto stops = std::ranges::count_if(words, [](const PunctuatedWord& w) { return EndsSentence(w.mark); });
  if (stops < kFewestStops) {
    Throw<InputError>("the text has {} words and {} sentence ends: a model of them needs text with punctuation",
                      words.size(), stops);
  }
  SentenceModel model(options.buckets);
  model.spellings_ = FindSpellings(words);
  std::vector<LinearClassifier::Example> marks, letters;
  size_t first = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool begins = i == first;
    const Around around{begins ? std::string_view() : words[i - 1].word,
                        words[i].word,
                        i + 1 < words.size() ? std::string_view(words[i + 1].word) : std::string_view(),
                        words[first].word,
                        static_cast<int>(i - first) + 1,
                        !begins && words[i - 1].letters != Letters::kSmall};
    marks.push_back({model.MarkFeatures(around), static_cast<int>(words[i].mark)});
    if (!begins && !words[i].mixed)
      letters.push_back({model.LetterFeatures(around), static_cast<int>(words[i].letters)});
    if (EndsSentence(words[i].mark)) first = i + 1;
  }
  model.marks_.Train(marks, options.passes, options.rate, options.seed);
  model.letters_.Train(letters, options.passes, options.rate, options.seed);
  return model;
}

}  // namespace antiphon::written
