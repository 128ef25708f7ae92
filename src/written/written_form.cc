#include "written/written_form.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace antiphon::written {
namespace {

namespace fs = std::filesystem;

// A pause of this length ends a phrase of a rule and, without a model of sentences, a sentence.
constexpr double kPauseAlone = 0.8;
// Nats that a pause of no length and each second of it, up to a limit, add to a full stop against no mark. Fitted by
// hand: within a sentence speakers pause for 0 to 0.3 s, between two for 0.4 s and more.
constexpr double kWithoutPause = -1.0, kPerSecond = 6.0, kMostByPause = 4.0;
constexpr double kCommaShare = 0.5;  // of it that a comma gets

constexpr const char* kSigns[] = {"", ",", ".", "?"};  // by Mark

bool HasSmallLetters(const std::string& word) { return UpperCase(word) != word; }

std::string Capitalised(const std::string& word) {
  const CodePoint first = FirstCodePoint(word);
  return UpperCase(word.substr(0, first.bytes)) + word.substr(first.bytes);
}

// Behind each word but the last, in seconds; below 0 where times have no meaning.
std::vector<double> PausesIn(std::span<const SpokenWord> words) {
  const bool timed = std::ranges::any_of(words, [](const SpokenWord& word) { return word.end_s > 0; });
  std::vector<double> pauses;
  for (size_t w = 0; w + 1 < words.size(); ++w) {
    // An end that was added up may lie a little behind the start that follows.
    pauses.push_back(timed ? std::max(0.0, words[w + 1].start_s - words[w].end_s) : -1.0);
  }
  return pauses;
}

bool IsPart(const fs::path& file) {
  const fs::path ending = file.extension();
  return ending == kRuleEnding || ending == kSentenceEnding;
}

template <class Value>
Value Best(const std::vector<double>& scores) {
  return static_cast<Value>(std::ranges::max_element(scores) - scores.begin());
}

}  // namespace

// A token on its way.
struct WrittenForm::Draft {
  std::string text;
  bool by_rule;  // it has its letters
  int first_word, num_words;
};

WrittenForm::WrittenForm(std::vector<Rules> rules, std::optional<SentenceModel> sentences, bool fold_case)
    : rules_(std::move(rules)), sentences_(std::move(sentences)), fold_case_(fold_case) {}

std::vector<std::string> FilesOf(const std::string& place) {
  if (place == kEnglish) return {place};
  const bool exists = fs::exists(place);
  if (!exists || (!fs::is_directory(place) && !IsPart(place))) {
    Throw<InputError>("{} '{}': expected '{}', a folder, or a file of rules (*{}) or of a model of sentences (*{})",
                      exists ? "no written form is" : "there is no written form", place, kEnglish, kRuleEnding,
                      kSentenceEnding);
  }
  if (!fs::is_directory(place)) return {place};
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(place)) {
    if (IsPart(entry.path())) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) Throw<InputError>("'{}' holds neither rules (*{}) nor a *{}", place, kRuleEnding, kSentenceEnding);
  return files;
}

WrittenForm WrittenForm::Load(const std::vector<std::string>& files, bool fold_case) {
  std::vector<Rules> rules;
  std::optional<SentenceModel> sentences;
  for (const std::string& file : files) {
    if (file == kEnglish) {
      rules.push_back(Rules::English());
    } else if (file.ends_with(kRuleEnding)) {
      rules.push_back(Rules::Load(file));
    } else if (sentences) {
      Throw<InputError>("'{}' is a second model of sentences; one is enough", file);
    } else {
      sentences = SentenceModel::Load(file);
    }
  }
  return WrittenForm(std::move(rules), std::move(sentences), fold_case);
}

std::vector<WrittenForm::Draft> WrittenForm::ApplyRules(const std::vector<std::string>& words,
                                                        const std::vector<double>& pauses, bool ended,
                                                        size_t& num_settled) const {
  std::vector<Draft> drafts;
  bool settled = true;
  num_settled = 0;
  for (size_t at = 0, stop = 0; at < words.size();) {
    if (at >= stop) {
      stop = at + 1;
      while (stop < words.size() && pauses[stop - 1] < kPauseAlone) ++stop;
    }
    std::optional<Rules::Match> longest;
    for (const Rules& rules : rules_) {
      Rules::Result result = rules.Read(std::span(words).subspan(at, stop - at));
      if (result.open && !ended && stop == words.size()) settled = false;
      if (result.match && (!longest || result.match->num_words > longest->num_words)) longest = result.match;
    }
    const int count = longest ? longest->num_words : 1;
    drafts.push_back({longest ? longest->text : words[at], longest.has_value(), static_cast<int>(at), count});
    at += static_cast<size_t>(count);
    if (settled) num_settled = drafts.size();
  }
  return drafts;
}

Mark WrittenForm::MarkBehind(const Around& around, double pause_s) const {
  if (!sentences_) return pause_s >= kPauseAlone ? Mark::kStop : Mark::kNone;
  std::vector<double> scores = sentences_->MarkBehind(around);
  if (pause_s >= 0) {
    const double by_pause = std::min(kWithoutPause + kPerSecond * pause_s, kMostByPause);
    scores[static_cast<size_t>(Mark::kStop)] += by_pause;
    scores[static_cast<size_t>(Mark::kQuestion)] += by_pause;
    scores[static_cast<size_t>(Mark::kComma)] += kCommaShare * by_pause;
  }
  return Best<Mark>(scores);
}

std::string WrittenForm::WithLetters(const Draft& draft, const Around& around, bool begins) const {
  std::string text = draft.text;
  const bool has_letters = draft.by_rule || LowerCase(text) != text;
  if (!has_letters && sentences_) {
    const std::string spelling = sentences_->Spelling(text);
    if (!spelling.empty()) return spelling;
    const auto letters = begins ? Letters::kSmall : Best<Letters>(sentences_->LettersOf(around));
    if (letters == Letters::kLarge) text = UpperCase(text);
    if (letters == Letters::kCapital) text = Capitalised(text);
  }
  return begins ? Capitalised(text) : text;
}

// The sentence that is being written.
class WrittenForm::Sentence {
 public:
  explicit Sentence(const std::vector<std::string>& words) : words_(words) {}

  bool BeginsAt(size_t word) const { return word == first_; }
  Around At(size_t word) const {
    return {BeginsAt(word) ? std::string_view() : words_[word - 1],
            words_[word],
            word + 1 < words_.size() ? std::string_view(words_[word + 1]) : std::string_view(),
            words_[first_],
            static_cast<int>(word - first_) + 1,
            capital_before_};
  }
  void GoOn(const std::string& token) { capital_before_ = LowerCase(token) != token; }
  void EndBefore(size_t word) {
    first_ = word;
    capital_before_ = false;
  }

 private:
  const std::vector<std::string>& words_;
  size_t first_ = 0;
  bool capital_before_ = false;
};

Mark WrittenForm::LastMark(const Around& around) const {
  if (!sentences_) return Mark::kStop;
  const std::vector<double> scores = sentences_->MarkBehind(around);
  const bool asks = scores[static_cast<size_t>(Mark::kQuestion)] > scores[static_cast<size_t>(Mark::kStop)];
  return asks ? Mark::kQuestion : Mark::kStop;
}

WrittenText WrittenForm::Write(std::span<const SpokenWord> spoken, bool ended) const {
  std::vector<std::string> words;
  for (const SpokenWord& word : spoken) words.push_back(LowerCase(word.word));
  const std::vector<double> pauses = PausesIn(spoken);
  WrittenText text;
  size_t num_settled = 0;
  std::vector<Draft> drafts = ApplyRules(words, pauses, ended, num_settled);
  Sentence sentence(words);
  for (size_t t = 0; t < drafts.size(); ++t) {
    Draft& draft = drafts[t];
    const auto begin = static_cast<size_t>(draft.first_word);
    const size_t end = begin + static_cast<size_t>(draft.num_words);  // the next word
    const bool is_last = end == words.size();
    const std::string& word = spoken[begin].word;
    if (!draft.by_rule && (!fold_case_ || HasSmallLetters(word))) draft.text = word;
    std::string token = WithLetters(draft, sentence.At(begin), sentence.BeginsAt(begin));
    sentence.GoOn(token);
    Mark mark = Mark::kNone;
    if (is_last && ended) mark = LastMark(sentence.At(end - 1));
    if (!is_last) mark = MarkBehind(sentence.At(end - 1), pauses[end - 1]);
    // "5 p.m." ends a sentence by its own full stop.
    if (mark != Mark::kStop || !token.ends_with('.')) token += kSigns[static_cast<size_t>(mark)];
    if (EndsSentence(mark)) sentence.EndBefore(end);
    text.tokens.push_back({std::move(token), draft.first_word, draft.num_words});
    if (t < num_settled && (ended || !is_last)) text.num_settled = static_cast<int>(t) + 1;
  }
  return text;
}

bool IsInCapitals(std::span<const std::string> words) {
  size_t with_small = 0, without = 0;
  for (const std::string& word : words) {
    if (word.starts_with('<') || word.starts_with('[') || word.starts_with('#')) continue;
    ++(HasSmallLetters(word) ? with_small : without);
  }
  return without > with_small;
}

}  // namespace antiphon::written
