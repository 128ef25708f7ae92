// A small model of where sentences end and which words have capitals, from what stands around a word.
//
// Two classifiers: of the mark behind a word (none, comma, full stop, question mark) and of a word's letters (small,
// first one large, all large); and a list of words with a spelling of their own ("iPhone"). Decisions go from left to
// right and see one word ahead, so that they can be made while somebody speaks.
//
// Words are in small letters (base/utf8.h). The file is a safetensors file. Threads: const methods may run together.
// Errors: InputError naming the file.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "written/linear_classifier.h"

namespace antiphon::written {

struct PunctuatedWord;
struct SentenceTraining;

enum class Mark { kNone, kComma, kStop, kQuestion };
/// Whether the next word begins a sentence.
inline bool EndsSentence(Mark mark) { return mark == Mark::kStop || mark == Mark::kQuestion; }
enum class Letters { kSmall, kCapital, kLarge };
inline constexpr int kNumMarks = 4;
inline constexpr int kNumLetters = 3;

/// What a decision about `word` sees. "" where there is none.
struct Around {
  std::string_view before, word, after;
  std::string_view first;       // word of the sentence
  int words_in_sentence = 1;    // up to this word
  bool capital_before = false;  // the word before has one
};

class SentenceModel {
 public:
  explicit SentenceModel(int num_buckets);
  static SentenceModel Load(const std::filesystem::path& file);
  void Save(const std::filesystem::path& file) const;

  /// By Mark and by Letters: natural logarithms of probabilities.
  std::vector<double> MarkBehind(const Around& around) const;
  std::vector<double> LettersOf(const Around& around) const;
  /// How a word is always written, "" if by LettersOf.
  std::string Spelling(std::string_view word) const;

 private:
  friend SentenceModel TrainSentences(const std::vector<PunctuatedWord>& words, const SentenceTraining& options);
  Features MarkFeatures(const Around& around) const;
  Features LetterFeatures(const Around& around) const;

  LinearClassifier marks_, letters_;
  std::map<std::string, std::string, std::less<>> spellings_;
};

}  // namespace antiphon::written
