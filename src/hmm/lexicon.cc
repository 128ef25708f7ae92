#include "hmm/lexicon.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/check.h"
#include "base/file.h"
#include "base/utf8.h"

namespace antiphon::hmm {
namespace {

// Many times the longest word of any language; graphs of longer ones would take hours to build.
constexpr size_t kMaxPhones = 1000;

struct Line {
  int number;
  std::vector<std::string_view> fields;
};

std::vector<std::string_view> SplitFields(std::string_view line) {
  std::vector<std::string_view> fields;
  size_t begin = 0;
  while ((begin = line.find_first_not_of(" \t\r", begin)) != std::string_view::npos) {
    const size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end;
  }
  return fields;
}

std::vector<Line> SplitLines(std::string_view text, const std::string& source) {
  std::vector<Line> lines;
  int number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    ++number;
    const std::string_view line = text.substr(0, end);
    if (line.find('\0') != std::string_view::npos)
      Throw<InputError>("{}:{}: a zero byte; is this a text file?", source, number);
    std::vector<std::string_view> fields = SplitFields(line);
    if (!fields.empty()) lines.push_back({number, std::move(fields)});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::optional<double> ParseNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// Phones may be called "1" or "2", but hardly all entries begin with a number and one of them with a decimal point.
bool HasProbabilities(const std::vector<Line>& lines) {
  const auto number = [](const Line& line) {
    return line.fields.size() >= 2 && ParseNumber(line.fields[1]).has_value();
  };
  const auto point = [](const Line& line) { return line.fields[1].find('.') != std::string_view::npos; };
  return std::all_of(lines.begin(), lines.end(), number) && std::any_of(lines.begin(), lines.end(), point);
}

PhoneSet CollectPhones(const std::vector<Line>& lines, size_t first_phone, const LexiconOptions& options) {
  std::set<std::string, std::less<>> names = {options.optional_silence};
  for (const Line& line : lines) {
    for (size_t i = first_phone; i < line.fields.size(); ++i) names.emplace(line.fields[i]);
  }
  std::set<std::string> silence = {options.optional_silence};
  for (const std::string& name : options.silence_phones) {
    if (names.contains(name)) silence.insert(name);
  }
  return PhoneSet({names.begin(), names.end()}, {silence.begin(), silence.end()}, options.position_dependent);
}

}  // namespace

Lexicon Lexicon::Load(const std::filesystem::path& path, const LexiconOptions& options,
                      std::optional<PhoneSet> phones) {
  return Parse(ReadFile(path), path.string(), options, std::move(phones));
}

Lexicon Lexicon::Parse(std::string_view text, const std::string& source, const LexiconOptions& options,
                       std::optional<PhoneSet> phones) {
  const std::string composed = ComposeLines(text, source);
  const std::vector<Line> lines = SplitLines(composed, source);
  if (lines.empty()) Throw<InputError>("{}: no entries; expected lines of the form WORD PHONE PHONE …", source);
  const bool with_probability = HasProbabilities(lines);
  const size_t first_phone = with_probability ? 2 : 1;

  Lexicon lexicon;
  lexicon.options_ = options;
  lexicon.phones_ = phones ? *std::move(phones) : CollectPhones(lines, first_phone, options);
  lexicon.optional_silence_ = lexicon.phones_.Id(options.optional_silence);
  std::map<std::pair<int32_t, std::vector<int32_t>>, int> line_of;
  for (const Line& line : lines) {
    const auto where = [&] { return fmt::format("{}:{}", source, line.number); };
    const std::string word(line.fields[0]);
    if (word == "<eps>" || word == "#0") Throw<InputError>("{}: '{}' is reserved and cannot be a word", where(), word);
    if (line.fields.size() <= first_phone)
      Throw<InputError>("{}: word '{}' has no phones; give at least one", where(), word);
    if (const size_t length = line.fields.size() - first_phone; length > kMaxPhones) {
      Throw<InputError>("{}: word '{}' has {} phones; at most {} make a pronunciation: is a line end missing?", where(),
                        word, length, kMaxPhones);
    }
    Pronunciation entry;
    if (with_probability) {
      const double probability = *ParseNumber(line.fields[1]);
      if (!(probability > 0 && probability <= 1))
        Throw<InputError>("{}: word '{}' has probability {}; expected 0 < p ≤ 1", where(), word, probability);
      entry.cost = std::max(0.0F, static_cast<float>(-std::log(probability)));
    }
    const std::vector<std::string> names(line.fields.begin() + static_cast<std::ptrdiff_t>(first_phone),
                                         line.fields.end());
    entry.phones = WithContext([&] { return lexicon.phones_.Pronounce(names); },
                               [&] { return fmt::format("{}: word '{}'", where(), word); });
    const auto [it, added] = lexicon.word_ids_.emplace(word, static_cast<int32_t>(lexicon.words_.size()));
    if (added) lexicon.words_.push_back(word);
    entry.word = it->second;
    const auto [previous, is_new] = line_of.emplace(std::pair(entry.word, entry.phones), line.number);
    if (!is_new)
      Throw<InputError>("{}: word '{}' has the same pronunciation as in line {}; remove one", where(), word,
                        previous->second);
    lexicon.entries_.push_back(std::move(entry));
  }
  std::stable_sort(lexicon.entries_.begin(), lexicon.entries_.end(),
                   [](const Pronunciation& a, const Pronunciation& b) { return a.word < b.word; });
  lexicon.first_entry_.assign(lexicon.words_.size() + 1, lexicon.entries_.size());
  for (size_t i = lexicon.entries_.size(); i-- > 0;)
    lexicon.first_entry_[static_cast<size_t>(lexicon.entries_[i].word)] = i;
  lexicon.first_entry_[0] = 0;
  lexicon.unknown_word_ = lexicon.FindWord(options.unknown_word);
  return lexicon;
}

const std::string& Lexicon::Word(int32_t id) const {
  CHECK(id >= 0 && id <= num_words()) << "word id " << id << " of " << num_words();
  return words_[static_cast<size_t>(id)];
}

int32_t Lexicon::FindWord(std::string_view word) const {
  const auto it = word_ids_.find(word);
  return it == word_ids_.end() ? 0 : it->second;
}

std::span<const Pronunciation> Lexicon::PronunciationsOf(int32_t word) const {
  CHECK(word >= 1 && word <= num_words()) << "word id " << word << " of " << num_words();
  const size_t first = first_entry_[static_cast<size_t>(word)];
  return std::span(entries_).subspan(first, first_entry_[static_cast<size_t>(word) + 1] - first);
}

std::string Lexicon::ToText(const std::set<int32_t>* words) const {
  std::string text;
  const bool with_probability =
      std::any_of(entries_.begin(), entries_.end(), [](const Pronunciation& entry) { return entry.cost != 0; });
  for (const Pronunciation& entry : entries_) {
    if (words != nullptr && !words->contains(entry.word)) continue;
    text += Word(entry.word);
    // 0 would not be read again.
    const double probability = std::max(1e-9, std::exp(-static_cast<double>(entry.cost)));
    if (with_probability) text += fmt::format(" {:.9f}", probability);
    for (const int32_t phone : entry.phones) text.append(1, ' ').append(phones_.BaseName(phone));
    text += "\n";
  }
  return text;
}

WordIds LookUpWords(const Lexicon& lexicon, std::span<const std::string> words, bool map_unknown) {
  WordIds result;
  for (const std::string& word : words) {
    const int32_t id = lexicon.FindWord(word);
    if (id == 0) result.unknown.push_back(word);
    result.ids.push_back(id != 0 ? id : lexicon.unknown_word());
  }
  if (!result.unknown.empty() && (!map_unknown || lexicon.unknown_word() == 0)) result.ids.clear();
  return result;
}

}  // namespace antiphon::hmm
