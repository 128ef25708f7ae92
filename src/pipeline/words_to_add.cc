#include "pipeline/words_to_add.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/known_case.h"
#include "base/log.h"
#include "base/utf8.h"
#include "g2p/model.h"
#include "hmm/graph/pronunciation_model.h"
#include "pipeline/new_words.h"

namespace antiphon::pipeline {
namespace {

constexpr double kMostWeight = 1e6;
// A name that is said in one of these ways is found; more of them are found where it was not said.
const g2p::PronounceOptions kGuesses = {.nbest = 3, .least_probability = 0.1};
// So many are told one by one.
constexpr size_t kMostTold = 20;

// Phones may be called "1": a weight has a decimal point.
bool ReadWeight(const std::string& text, double& weight) {
  if (text.find('.') == std::string::npos) return false;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, weight);
  return error == std::errc() && at == end;
}

// A weight without one is taken for a phone.
const char* PointHint(const std::vector<std::string>& phones) {
  const bool is_number = !phones.empty() && phones[0].find_first_not_of("0123456789") == std::string::npos;
  return is_number ? " (a weight has a decimal point)" : "";
}

std::vector<std::string> Fields(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

}  // namespace

WordsToAdd::Line WordsToAdd::ParseLine(const std::string& text, const std::string& where) {
  if (text.find('\0') != std::string::npos) Throw<InputError>("{}: a zero byte; is this a text file?", where);
  const std::vector<std::string> fields = Fields(text);
  Line line{.word = fields.empty() ? "" : fields[0], .phones = {}, .weight = 1.0, .where = where};
  if (fields.empty()) Throw<InputError>("{}: no word", where);
  const bool weighted = fields.size() > 1 && ReadWeight(fields[1], line.weight);
  line.phones.assign(fields.begin() + (weighted ? 2 : 1), fields.end());
  return line;
}

std::vector<WordsToAdd::Line> WordsToAdd::ReadLines(const std::string& file) {
  std::istringstream in(ComposeLines(ReadFile(file), file));
  std::vector<Line> lines;
  int number = 0;
  for (std::string text; std::getline(in, text);) {
    ++number;
    if (text.starts_with('#') || Fields(text).empty()) continue;
    lines.push_back(ParseLine(text, fmt::format("'{}' line {}", file, number)));
  }
  if (lines.empty()) Throw<InputError>("'{}' holds no word; expected lines of the form WORD [PHONE …]", file);
  return lines;
}

std::vector<WordsToAdd::Line> WordsToAdd::LinesOf(const std::vector<WordToAdd>& words) {
  std::vector<Line> lines;
  for (const WordToAdd& word : words) {
    const std::string where = fmt::format("the added word '{}'", word.word);
    const std::vector<std::string> name = Fields(ComposeUtf8(word.word));
    if (name.size() != 1) Throw<InputError>("{} is not one word", where);
    lines.push_back({name[0], Fields(ComposeUtf8(word.phones)), word.weight, where});
  }
  return lines;
}

WordsToAdd::WordsToAdd(const decode::Graph& graph, const GraphChanges& changes,
                       const std::vector<std::pair<std::string, double>>& phrases)
    : lexicon_(graph.lexicon()),
      with_probabilities_(std::any_of(lexicon_->entries().begin(), lexicon_->entries().end(),
                                      [](const hmm::Pronunciation& entry) { return entry.cost != 0; })) {
  if (!changes.add_words.empty()) {
    for (Line& line : ReadLines(changes.add_words)) Take(std::move(line));
  }
  for (Line& line : LinesOf(changes.words)) Take(std::move(line));
  TakeHotwords(graph, phrases, !changes.g2p.empty());
  Pronounce(changes.g2p);
  if (new_lines_.empty()) return;
  lexicon_ = std::make_shared<const hmm::Lexicon>(hmm::Lexicon::Parse(
      lexicon_->ToText() + new_lines_, "lexicon with added words", lexicon_->options(), lexicon_->phones()));
  Tell(*lexicon_);
}

WordsToAdd::Word& WordsToAdd::Find(const Line& line) {
  const auto [place, is_new] = places_.emplace(line.word, words_.size());
  if (is_new) words_.push_back({.word = line.word, .weight = line.weight, .where = line.where});
  return words_[place->second];
}

std::string AsTheLexiconWrites(const hmm::Lexicon& lexicon, const std::string& word) {
  return InKnownCase(word, [&](const std::string& name) { return lexicon.FindWord(name) > 0; });
}

void WordsToAdd::Take(Line line) {
  line.word = AsTheLexiconWrites(*lexicon_, line.word);
  if (line.word == "<eps>" || line.word == "#0" || line.word == "<s>" || line.word == "</s>") {
    Throw<InputError>("{}: '{}' is reserved and cannot be a word", line.where, line.word);
  }
  if (!(line.weight > 0 && line.weight <= kMostWeight)) {
    Throw<InputError>("{}: '{}' has the weight {}; expected 0 < weight ≤ {:.0f}", line.where, line.word, line.weight,
                      kMostWeight);
  }
  const std::vector<int32_t> phones =
      line.phones.empty()
          ? std::vector<int32_t>()
          : WithContext([&] { return lexicon_->phones().Pronounce(line.phones); },
                        [&] { return fmt::format("{}: '{}'{}", line.where, line.word, PointHint(line.phones)); });
  if (!taken_.emplace(line.word, phones).second) {
    Throw<InputError>("{}: '{}' was there before{}; remove one", line.where, line.word,
                      phones.empty() ? "" : " with the same pronunciation");
  }
  Word& word = Find(line);
  const int32_t id = lexicon_->FindWord(line.word);
  if (phones.empty() || (id > 0 && hmm::FindEntry(*lexicon_, id, phones) >= 0)) return;
  word.has_new_sounds = true;
  new_lines_ += fmt::format("{}{} {}\n", line.word, with_probabilities_ ? " 1.0" : "", fmt::join(line.phones, " "));
}

void WordsToAdd::TakeHotwords(const decode::Graph& graph, const std::vector<std::pair<std::string, double>>& phrases,
                              bool is_pronounced) {
  const std::vector<bool> said = graph.SaidWords();
  for (const auto& [phrase, bonus] : phrases) {
    if (bonus <= 0) continue;
    for (const std::string& field : Fields(ComposeUtf8(phrase))) {
      const std::string name = AsTheLexiconWrites(*lexicon_, field);
      const int32_t id = lexicon_->FindWord(name);
      if (id > 0 ? said[static_cast<size_t>(id)] : !is_pronounced) continue;
      const size_t before = words_.size();
      Word& word = Find({name, {}, 1.0, fmt::format("the hotword '{}'", phrase)});
      if (words_.size() > before) word.is_hotword = true;
    }
  }
}

// What has neither phones of its own nor any in the lexicon.
void WordsToAdd::Pronounce(const std::string& g2p) {
  std::vector<size_t> silent;
  for (size_t i = 0; i < words_.size(); ++i) {
    const Word& word = words_[i];
    if (word.has_new_sounds || lexicon_->FindWord(word.word) > 0) continue;
    if (g2p.empty()) {
      Throw<InputError>(
          "{}: '{}' is not in the lexicon, and nothing pronounces it: write its phones behind it, or name a model of "
          "antiphon g2p train by --g2p",
          word.where, word.word);
    }
    silent.push_back(i);
  }
  if (silent.empty()) return;
  const g2p::Model model = g2p::Model::Load(g2p);
  RequirePhones(model, *lexicon_, g2p);
  for (const size_t i : silent) {
    Word& word = words_[i];
    const NewWords spoken = PronounceNewWords(*lexicon_, std::span(&word.word, 1), model, kGuesses, /*num_threads=*/1);
    word.has_new_sounds = !spoken.lines.empty();
    new_lines_ += spoken.lines;
    if (!spoken.refused.empty() && !word.is_hotword) Throw<InputError>("{}: {}", word.where, spoken.refused[0]);
  }
}

void WordsToAdd::Tell(const hmm::Lexicon& lexicon) const {
  size_t told = 0, count = 0;
  for (const Word& word : words_) {
    if (!word.has_new_sounds) continue;
    ++count;
    if (told == kMostTold) continue;
    ++told;
    std::vector<std::string> ways;
    for (const hmm::Pronunciation& entry : lexicon.PronunciationsOf(lexicon.FindWord(word.word))) {
      std::vector<std::string> names;
      for (const int32_t phone : entry.phones) names.push_back(lexicon.phones().BaseName(phone));
      ways.push_back(fmt::format("{}", fmt::join(names, " ")));
    }
    log::Info("{}: said as {}", word.is_hotword ? word.where : fmt::format("added '{}'", word.word),
              fmt::join(ways, " or "));
  }
  if (count > told) log::Info("{} more words are added", count - told);
}

}  // namespace antiphon::pipeline
