// What was said as people write it: "$25 at 10:30 p.m. I asked Mr Brown." in place of its words.
//
//   const WrittenForm form = WrittenForm::Load(FilesOf("english"), /*fold_case=*/true);
//   for (const WrittenToken& t : form.Write(words, /*ended=*/true)) std::cout << t.text << " ";
//
// Three steps, each from left to right: rules write numbers, times, money (written/rules.h; the first rules that fit,
// the longest phrase that they have, no long pause in it); marks are set behind words where a model of sentences and
// the pause say so, without a model by the pause alone; capitals are given to sentence beginnings and to what the model
// knows as names. Every spoken word belongs to one token, whose times span its words.
//
// While somebody speaks, more words change nothing of the tokens that are settled: those before the last one that they
// could make longer, or behind which a mark may still come.
//
// A written form is a folder: *.fst (rules, in the order of their names) and *.safetensors (a model of sentences), both
// optional; or one of these files; or "english", the rules that come with the program.
//
// Units: seconds. Threads: const methods may run together. Errors: InputError naming the file.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "written/rules.h"
#include "written/sentence_model.h"

namespace antiphon::written {

inline constexpr char kEnglish[] = "english";
inline constexpr char kRuleEnding[] = ".fst";
inline constexpr char kSentenceEnding[] = ".safetensors";

struct SpokenWord {
  std::string word;
  double start_s = 0.0;
  double end_s = 0.0;
};

struct WrittenToken {
  std::string text;
  int first_word = 0;
  int num_words = 0;
};

struct WrittenText {
  std::vector<WrittenToken> tokens;
  int num_settled = 0;  // tokens that more words do not change
};

/// The files of a written form: of a folder, of one file, or of "english", which stands for itself. InputError if there
/// are none.
std::vector<std::string> FilesOf(const std::string& place);

class WrittenForm {
 public:
  /// `fold_case`: the recogniser's words are in large letters throughout, which mean nothing.
  static WrittenForm Load(const std::vector<std::string>& files, bool fold_case);
  WrittenForm(std::vector<Rules> rules, std::optional<SentenceModel> sentences, bool fold_case);

  /// Times without meaning (end_s ≤ 0 of all words) make no pauses. `ended`: nothing more will be said, and the last
  /// sentence ends.
  WrittenText Write(std::span<const SpokenWord> words, bool ended) const;

 private:
  struct Draft;
  class Sentence;

  std::vector<Draft> ApplyRules(const std::vector<std::string>& words, const std::vector<double>& pauses, bool ended,
                                size_t& num_settled) const;
  // `pause_s`: below 0 if it is not known.
  Mark MarkBehind(const Around& around, double pause_s) const;
  Mark LastMark(const Around& around) const;
  std::string WithLetters(const Draft& draft, const Around& around, bool begins) const;

  std::vector<Rules> rules_;
  std::optional<SentenceModel> sentences_;
  bool fold_case_;
};

/// Whether most words of a vocabulary have no small letter, all but those that somebody added: WrittenForm's fold_case.
/// Marks (<eps>, [noise]) do not count.
bool IsInCapitals(std::span<const std::string> words);

}  // namespace antiphon::written
