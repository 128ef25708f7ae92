#include "hmm/graph/pronunciation_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/trim.h"
#include "base/utf8.h"

namespace antiphon::hmm {
namespace {

// Counts that the general case is worth: of a pronunciation, of pauses after one, of pauses before one.
constexpr double kPronunciationWeight = 1.0, kAfterWeight = 2.0, kBeforeWeight = 2.0;
// A pause that was never, or always, made is not impossible, nor certain.
constexpr double kLeast = 1e-4;

struct PauseCounts {
  double with = 0, without = 0;                  // seen after it
  double before = 0, expected_before = 0;        // a pause before it
  double no_before = 0, expected_no_before = 0;  // no pause before it

  double After(double overall) const {
    return std::clamp((with + kAfterWeight * overall) / (with + without + kAfterWeight), kLeast, 1 - kLeast);
  }
  double FactorAfterPause() const { return (before + kBeforeWeight) / (expected_before + kBeforeWeight); }
  double FactorAfterNone() const { return (no_before + kBeforeWeight) / (expected_no_before + kBeforeWeight); }
  void CountAfter(bool pause) { ++(pause ? with : without); }
  void CountBefore(bool pause, double expected) {
    ++(pause ? before : no_before);
    expected_before += expected;
    expected_no_before += 1 - expected;
  }
};

// Calls body(left, right, pause) for neighbours; −1 is the utterance's beginning, and its end.
template <class Body>
void ForEachPlace(std::span<const SpokenWords> utterances, Body&& body) {
  for (const SpokenWords& said : utterances) {
    CHECK_EQ(said.pauses.size(), said.entries.size() + 1);
    if (said.entries.empty()) continue;
    for (size_t i = 0; i <= said.entries.size(); ++i) {
      body(i == 0 ? -1 : said.entries[i - 1], i < said.entries.size() ? said.entries[i] : -1, said.pauses[i]);
    }
  }
}

void SetPronunciations(const Lexicon& lexicon, const std::vector<double>& counts, PronunciationModel* model) {
  for (int32_t word = 1; word <= lexicon.num_words(); ++word) {
    const auto variants = lexicon.PronunciationsOf(word);
    const auto first = static_cast<size_t>(variants.data() - lexicon.entries().data());
    double largest = 0;
    for (size_t i = 0; i < variants.size(); ++i) {
      double& p = model->entries[first + i].probability;
      p = counts[first + i] + kPronunciationWeight * std::exp(-static_cast<double>(variants[i].cost));
      largest = std::max(largest, p);
    }
    for (size_t i = 0; i < variants.size(); ++i) model->entries[first + i].probability /= largest;
  }
}

std::vector<std::string_view> Fields(std::string_view line) {
  std::vector<std::string_view> fields;
  for (line = Trim(line); !line.empty(); line = Trim(line)) {
    const size_t end = std::min(line.find_first_of(kBlanks), line.size());
    fields.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return fields;
}

// Calls body(fields, where) for every line that is not blank.
template <class Body>
void ForEachLine(std::string_view text, const std::string& source, Body&& body) {
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string_view> fields = Fields(text.substr(0, end));
    if (!fields.empty()) body(fields, fmt::format("{}:{}", source, number));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

double Number(std::string_view field, double most, const char* what, const std::string& where) {
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || !(value > 0 && value <= most)) {
    Throw<InputError>("{}: expected {} above 0 and at most {:g}, found '{}'", where, what, most, field);
  }
  return value;
}

constexpr double kMostFactor = 1e6;

double PauseProbability(std::string_view field, const std::string& where) {
  return std::clamp(Number(field, 1, "a pause's probability", where), kLeast, 1 - kLeast);
}

int32_t EntryOf(const Lexicon& lexicon, std::span<const std::string_view> fields, const std::string& where) {
  const int32_t word = lexicon.FindWord(fields[0]);
  if (word == 0) Throw<InputError>("{}: the word '{}' is not in the lexicon", where, fields[0]);
  const std::vector<std::string> names(fields.begin() + 5, fields.end());
  const std::vector<int32_t> phones = WithContext([&] { return lexicon.phones().Pronounce(names); },
                                                  [&] { return fmt::format("{}: word '{}'", where, fields[0]); });
  const int32_t entry = FindEntry(lexicon, word, phones);
  if (entry < 0) {
    Throw<InputError>("{}: the lexicon does not say '{}' as '{}'", where, fields[0], fmt::join(names, " "));
  }
  return entry;
}

void ParsePauses(std::string_view text, const std::string& source, PronunciationModel* model) {
  std::map<std::string, double*, std::less<>> values = {{"<s>", &model->pause_at_start},
                                                        {"</s>_s", &model->end_factor_after_pause},
                                                        {"</s>_n", &model->end_factor_after_none},
                                                        {"overall", &model->pause_overall}};
  ForEachLine(text, source, [&](const auto& fields, const std::string& where) {
    const auto it = values.find(fields[0]);
    if (it == values.end() || fields.size() != 2) {
      Throw<InputError>("{}: expected one each of '<s> P', '</s>_s F', '</s>_n F' and 'overall P', found '{}'", where,
                        fmt::join(fields, " "));
    }
    const bool factor = fields[0].starts_with("</s>");
    *it->second = factor ? Number(fields[1], kMostFactor, "a factor", where) : PauseProbability(fields[1], where);
    values.erase(it);
  });
  if (!values.empty()) Throw<InputError>("{}: there is no line '{}'", source, values.begin()->first);
}

}  // namespace

int32_t FindEntry(const Lexicon& lexicon, int32_t word, std::span<const int32_t> phones) {
  for (const Pronunciation& entry : lexicon.PronunciationsOf(word)) {
    if (std::equal(phones.begin(), phones.end(), entry.phones.begin(), entry.phones.end())) {
      return static_cast<int32_t>(&entry - lexicon.entries().data());
    }
  }
  return -1;
}

PronunciationModel EstimatePronunciations(const Lexicon& lexicon, std::span<const SpokenWords> utterances) {
  const size_t num_entries = lexicon.entries().size();
  std::vector<double> uses(num_entries, 0.0);
  // By entry + 1; 0 is the beginning on the left, the end on the right.
  std::vector<PauseCounts> counts(num_entries + 1);
  double pauses = 0, places = 0;
  ForEachPlace(utterances, [&](int32_t left, int32_t right, bool pause) {
    if (right >= 0) ++uses[static_cast<size_t>(right)];
    counts[static_cast<size_t>(left + 1)].CountAfter(pause);
    pauses += pause ? 1 : 0;
    ++places;
  });
  if (places == 0) throw InputError("no utterance has words");
  PronunciationModel model;
  model.pause_overall = std::clamp(pauses / places, kLeast, 1 - kLeast);
  ForEachPlace(utterances, [&](int32_t left, int32_t right, bool pause) {
    counts[static_cast<size_t>(right + 1)].CountBefore(
        pause, counts[static_cast<size_t>(left + 1)].After(model.pause_overall));
  });
  model.pause_at_start = counts[0].After(model.pause_overall);
  model.end_factor_after_pause = counts[0].FactorAfterPause();
  model.end_factor_after_none = counts[0].FactorAfterNone();
  for (size_t e = 0; e < num_entries; ++e) {
    const PauseCounts& count = counts[e + 1];
    model.entries.push_back({1.0, count.After(model.pause_overall), count.FactorAfterPause(), count.FactorAfterNone()});
  }
  SetPronunciations(lexicon, uses, &model);
  return model;
}

std::string EntriesToText(const PronunciationModel& model, const Lexicon& lexicon) {
  CHECK_EQ(model.entries.size(), lexicon.entries().size());
  std::string text;
  for (size_t e = 0; e < model.entries.size(); ++e) {
    const PronunciationModel::Entry& entry = model.entries[e];
    const Pronunciation& said = lexicon.entries()[e];
    text += fmt::format("{} {:.6f} {:.6f} {:.6f} {:.6f}", lexicon.Word(said.word), std::max(entry.probability, 1e-6),
                        entry.pause_after, entry.factor_after_pause, entry.factor_after_none);
    for (const int32_t phone : said.phones) text.append(1, ' ').append(lexicon.phones().BaseName(phone));
    text += '\n';
  }
  return text;
}

std::string PausesToText(const PronunciationModel& model) {
  return fmt::format("<s> {:.6f}\n</s>_s {:.6f}\n</s>_n {:.6f}\noverall {:.6f}\n", model.pause_at_start,
                     model.end_factor_after_pause, model.end_factor_after_none, model.pause_overall);
}

PronunciationModel ParsePronunciations(std::string_view entries, const std::string& entries_source,
                                       std::string_view pauses, const std::string& pauses_source,
                                       const Lexicon& lexicon, int* missing) {
  PronunciationModel model;
  ParsePauses(pauses, pauses_source, &model);
  for (const Pronunciation& entry : lexicon.entries()) {
    model.entries.push_back({std::exp(-static_cast<double>(entry.cost)), model.pause_overall, 1.0, 1.0});
  }
  std::vector<bool> seen(model.entries.size(), false);
  const std::string composed = ComposeLines(entries, entries_source);
  ForEachLine(composed, entries_source, [&](const auto& fields, const std::string& where) {
    if (fields.size() < 6) {
      Throw<InputError>("{}: expected WORD, 4 numbers and phones (lexiconp_silprob.txt), found {} fields", where,
                        fields.size());
    }
    const double probability = Number(fields[1], 1, "a probability", where);
    const double pause = PauseProbability(fields[2], where);
    const double after_pause = Number(fields[3], kMostFactor, "a factor", where);
    const double after_none = Number(fields[4], kMostFactor, "a factor", where);
    const auto entry = static_cast<size_t>(EntryOf(lexicon, fields, where));
    if (seen[entry]) Throw<InputError>("{}: '{}' has this pronunciation a second time", where, fields[0]);
    seen[entry] = true;
    model.entries[entry] = {probability, pause, after_pause, after_none};
  });
  if (missing != nullptr) *missing = static_cast<int>(std::count(seen.begin(), seen.end(), false));
  return model;
}

}  // namespace antiphon::hmm
