#include "pipeline/aligned_pronunciations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"
#include "base/log.h"
#include "base/trim.h"
#include "base/utf8.h"
#include "pipeline/aligned_times.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

struct TimedLabel {
  double begin_s = 0;
  double end_s = 0;
  std::string label;
  int line = 0;
};

// UTTERANCE CHANNEL START DURATION LABEL, utterances in any order, times ascending within each.
class Ctm {
 public:
  explicit Ctm(const fs::path& path) : source_(path.string()) {
    const std::string text = ComposeLines(ReadFile(path), source_);
    int number = 0;
    for (std::string_view rest = text; !rest.empty();) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      ++number;
      Parse(rest.substr(0, end), number);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }

  const std::map<std::string, std::vector<TimedLabel>, std::less<>>& utterances() const { return utterances_; }
  std::string Where(int line) const { return fmt::format("{}:{}", source_, line); }
  const std::string& source() const { return source_; }

 private:
  void Parse(std::string_view line, int number) {
    std::array<std::string_view, 5> fields;
    size_t count = 0;
    for (line = Trim(line); !line.empty(); line = Trim(line), ++count) {
      const size_t end = std::min(line.find_first_of(kBlanks), line.size());
      if (count < fields.size()) fields[count] = line.substr(0, end);
      line.remove_prefix(end);
    }
    if (count == 0) return;
    TimedLabel timed{Seconds(fields[2]), Seconds(fields[3]), std::string(fields[4]), number};
    if (count != fields.size() || std::isnan(timed.begin_s) || std::isnan(timed.end_s)) {
      Throw<InputError>("{}: expected UTTERANCE CHANNEL START DURATION LABEL", Where(number));
    }
    timed.end_s += timed.begin_s;
    auto it = utterances_.find(fields[0]);
    if (it == utterances_.end()) it = utterances_.emplace(std::string(fields[0]), std::vector<TimedLabel>()).first;
    if (!it->second.empty() && timed.begin_s < it->second.back().begin_s) {
      Throw<InputError>("{}: it begins before the line above", Where(number));
    }
    it->second.push_back(std::move(timed));
  }

  static double Seconds(std::string_view field) {
    double value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    return error == std::errc() && end == field.data() + field.size() && value >= 0 && std::isfinite(value) ? value
                                                                                                            : NAN;
  }

  std::string source_;
  std::map<std::string, std::vector<TimedLabel>, std::less<>> utterances_;
};

class Reader {
 public:
  Reader(const fs::path& folder, const hmm::Lexicon& lexicon)
      : phones_(folder / "phones.ctm"), words_(folder / "words.ctm"), lexicon_(lexicon) {}

  std::vector<hmm::SpokenWords> Read() const {
    std::vector<hmm::SpokenWords> utterances;
    for (const auto& [utt_id, words] : words_.utterances()) {
      const auto phones = phones_.utterances().find(utt_id);
      if (phones == phones_.utterances().end()) {
        Throw<InputError>("{}: utterance '{}' is not in '{}'", words_.Where(words[0].line), utt_id, phones_.source());
      }
      // What stands around speech that the text lacks says nothing of pauses.
      const auto foreign = [](const TimedLabel& phone) { return phone.label == kUnalignedLabel; };
      if (std::ranges::none_of(phones->second, foreign)) utterances.push_back(ReadOne(words, phones->second));
    }
    if (utterances.empty()) Throw<InputError>("{}: there are no words", words_.source());
    return utterances;
  }

 private:
  hmm::SpokenWords ReadOne(const std::vector<TimedLabel>& words, const std::vector<TimedLabel>& phones) const {
    hmm::SpokenWords said;
    said.pauses.push_back(false);
    size_t p = 0;
    // Times are rounded: the middle of a phone tells where it belongs.
    const auto before = [&](double seconds) {
      return p < phones.size() && (phones[p].begin_s + phones[p].end_s) / 2 < seconds;
    };
    for (const TimedLabel& word : words) {
      while (before(word.begin_s)) TakePause(phones[p++], &said);
      std::vector<int32_t> ids;
      while (before(word.end_s)) ids.push_back(Phone(phones[p++]));
      said.entries.push_back(Entry(word, ids));
      said.pauses.push_back(false);
    }
    while (p < phones.size()) TakePause(phones[p++], &said);
    return said;
  }

  void TakePause(const TimedLabel& phone, hmm::SpokenWords* said) const {
    if (Phone(phone) != lexicon_.optional_silence()) {
      Throw<InputError>("{}: the phone '{}' is in no word and is no pause ('{}')", phones_.Where(phone.line),
                        phone.label, lexicon_.phones().Name(lexicon_.optional_silence()));
    }
    said->pauses.back() = true;
  }

  // In the lexicon's phones, which need not tell positions apart.
  int32_t Phone(const TimedLabel& phone) const {
    const std::string_view name = phone.label;
    int32_t id = lexicon_.phones().Find(name);
    for (const std::string_view suffix : {"_B", "_E", "_I", "_S"}) {
      if (id == 0 && name.ends_with(suffix)) id = lexicon_.phones().Find(name.substr(0, name.size() - suffix.size()));
    }
    if (id == 0) Throw<InputError>("{}: the lexicon has no phone '{}'", phones_.Where(phone.line), name);
    return id;
  }

  int32_t Entry(const TimedLabel& word, const std::vector<int32_t>& phones) const {
    const int32_t id = lexicon_.FindWord(word.label);
    if (id == 0) {
      Throw<InputError>("{}: the word '{}' is not in the lexicon; was it aligned with another one?",
                        words_.Where(word.line), word.label);
    }
    const int32_t entry = hmm::FindEntry(lexicon_, id, phones);
    if (entry < 0) {
      std::vector<std::string> names;
      for (const int32_t phone : phones) names.push_back(lexicon_.phones().Name(phone));
      Throw<InputError>("{}: '{}' was said as '{}', which the lexicon does not have; was it aligned with another one?",
                        words_.Where(word.line), word.label, fmt::join(names, " "));
    }
    return entry;
  }

  Ctm phones_, words_;
  const hmm::Lexicon& lexicon_;
};

std::string ProbabilitiesAlone(const hmm::PronunciationModel& model, const hmm::Lexicon& lexicon) {
  std::string text;
  for (size_t e = 0; e < model.entries.size(); ++e) {
    const hmm::Pronunciation& said = lexicon.entries()[e];
    text += fmt::format("{} {:.6f}", lexicon.Word(said.word), std::max(model.entries[e].probability, 1e-6));
    for (const int32_t phone : said.phones) text.append(1, ' ').append(lexicon.phones().BaseName(phone));
    text += '\n';
  }
  return text;
}

}  // namespace

std::vector<hmm::SpokenWords> ReadAlignedPronunciations(const fs::path& folder, const hmm::Lexicon& lexicon) {
  return Reader(folder, lexicon).Read();
}

void WritePronunciations(const hmm::PronunciationModel& model, const hmm::Lexicon& lexicon, const fs::path& folder) {
  MakeFolder(folder);
  WriteFileAtomically(folder / "lexiconp.txt", ProbabilitiesAlone(model, lexicon));
  WriteFileAtomically(folder / kPausesFile, hmm::PausesToText(model));
  WriteFileAtomically(folder / kEntriesFile, hmm::EntriesToText(model, lexicon));
}

hmm::PronunciationModel ReadPronunciations(const fs::path& folder, const hmm::Lexicon& lexicon) {
  const fs::path entries = folder / kEntriesFile, pauses = folder / kPausesFile;
  int missing = 0;
  hmm::PronunciationModel model = hmm::ParsePronunciations(ReadFile(entries), entries.string(), ReadFile(pauses),
                                                           pauses.string(), lexicon, &missing);
  if (missing > 0) {
    log::Warn("{} of {} entries of the lexicon are not in '{}': they count as never heard", missing,
              lexicon.entries().size(), entries.string());
  }
  return model;
}

}  // namespace antiphon::pipeline
