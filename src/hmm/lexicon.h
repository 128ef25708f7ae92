// A pronunciation lexicon: words, their phone sequences and probabilities, in Kaldi's text formats.
//
// lexicon.txt:  WORD PHONE PHONE …          several lines of a word are its pronunciation variants
// lexiconp.txt: WORD PROBABILITY PHONE …    0 < probability ≤ 1
// Ids: words from 1 in the order of their first line, 0 is epsilon; the word-level back-off symbol #0 follows the last
// word. Errors: InputError "file:line: …" for a word without phones, a repeated entry, an unknown phone, a bad
// probability. Threads: const methods may run together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "hmm/phone_set.h"

namespace antiphon::hmm {

struct LexiconOptions {
  std::vector<std::string> silence_phones = {"SIL", "SPN", "NSN"};
  std::string optional_silence = "SIL";
  std::string unknown_word = "<UNK>";
  double silence_probability = 0.5;
  bool position_dependent = false;

  template <class V>
  void Visit(V& v) {
    v("silence-phones", silence_phones, "phones that model silence and noise, where the lexicon has them");
    v("optional-silence", optional_silence, "phone that may stand between words; made if the lexicon lacks it");
    v("unknown-word", unknown_word, "word that stands in for words without pronunciation, if the lexicon has it");
    v("silence-probability", silence_probability, Range{0.01, 0.99},
      "probability of a pause before, between and after words");
    v("position-dependent", position_dependent, "tell phones at the beginning, inside and end of words apart");
  }
};

struct Pronunciation {
  int32_t word = 0;
  std::vector<int32_t> phones;  // at least one
  float cost = 0;               // −log probability, ≥ 0
};

class Lexicon {
 public:
  /// Numbers in every line's second column, one of them with a decimal point, are taken as probabilities.
  /// With `phones` (of a trained model) every phone must be one of them; else the set is made from the file.
  static Lexicon Load(const std::filesystem::path& path, const LexiconOptions& options = {},
                      std::optional<PhoneSet> phones = {});
  /// `source` stands in for the file name in errors.
  static Lexicon Parse(std::string_view text, const std::string& source, const LexiconOptions& options = {},
                       std::optional<PhoneSet> phones = {});

  const PhoneSet& phones() const { return phones_; }
  const LexiconOptions& options() const { return options_; }
  int32_t optional_silence() const { return optional_silence_; }

  int num_words() const { return static_cast<int>(words_.size()) - 1; }
  /// 0 ≤ id ≤ num_words(); 0 gives "<eps>".
  const std::string& Word(int32_t id) const;
  /// 0 if the word is not there.
  int32_t FindWord(std::string_view word) const;
  /// Id of <UNK>, 0 if the lexicon has no such word.
  int32_t unknown_word() const { return unknown_word_; }
  /// Input label of back-off arcs in a grammar that this lexicon is composed with.
  int32_t backoff_word() const { return num_words() + 1; }

  /// All entries, grouped by word in ascending order.
  std::span<const Pronunciation> entries() const { return entries_; }
  std::span<const Pronunciation> PronunciationsOf(int32_t word) const;
  /// The words' entries as text, so that a model file can carry its lexicon; Parse of it gives the same lexicon.
  /// `words`: of these alone; null: of all.
  std::string ToText(const std::set<int32_t>* words = nullptr) const;

  /// Phone-level disambiguation symbol #k as a label: num_phones + 1 + k.
  int32_t DisambiguationPhone(int k) const { return phones_.num_phones() + 1 + k; }

 private:
  std::vector<std::string> words_ = {"<eps>"};
  std::map<std::string, int32_t, std::less<>> word_ids_;
  std::vector<Pronunciation> entries_;
  std::vector<size_t> first_entry_;  // by word id; one more at the end
  PhoneSet phones_;
  LexiconOptions options_;
  int32_t optional_silence_ = 0;
  int32_t unknown_word_ = 0;
};

/// What became of a transcript's words.
struct WordIds {
  std::vector<int32_t> ids;          // empty if the utterance cannot be used
  std::vector<std::string> unknown;  // words without pronunciation, in order
};

/// Looks words up. Unknown ones become <UNK> if map_unknown and the lexicon has it; else `ids` is empty.
WordIds LookUpWords(const Lexicon& lexicon, std::span<const std::string> words, bool map_unknown);

}  // namespace antiphon::hmm
