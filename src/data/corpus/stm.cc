// TED-LIUM's and NIST's STM: FILE CHANNEL SPEAKER START END <LABELS> TEXT, a line per segment.
//
// FOLDER with PART/stm and PART/sph (TED-LIUM), or .stm files beside their audio, or one .stm file. Channels are named
// by letters, and by numbers unless all segments of a file have "1", which means all of it; numbers count from 1 unless
// one of the file's is 0. Of { a / b / @ } the first is taken; out of the text go {noises}, <marks>, the numbers of
// pronunciations as in "a(2)", hesitations as (%hes) and the parentheses of words that may be left out; " 's" joins its
// word. Source: NIST SCTK, "infmts", stm; TED-LIUM, README.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <span>

#include "base/error.h"
#include "base/utf8.h"
#include "data/channels.h"
#include "data/corpus/corpus_files.h"
#include "data/corpus/corpus_format.h"
#include "data/text_table.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTextField = 5;  // with labels; without them the text

size_t EndOfBraces(std::string_view text, size_t begin) {
  int depth = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  Throw<InputError>("a '{{' without its '}}'");
}

// With the first of the alternatives { a / b / @ } in their place, and without {NOISE}, which has none.
std::string FirstAlternatives(std::string_view text) {
  std::string said;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{') {
      said += text[i];
      continue;
    }
    const size_t end = EndOfBraces(text, i);
    size_t slash = i + 1;
    while (slash < end && text[slash] != '/') slash = text[slash] == '{' ? EndOfBraces(text, slash) + 1 : slash + 1;
    said += ' ';
    if (slash < end) said += FirstAlternatives(text.substr(i + 1, slash - i - 1));
    said += ' ';
    i = end;
  }
  return said;
}

// "" for a mark: <unk>, (2) of a pronunciation, (%hes) of a sound that is no word, @ of none. Of a word that may be
// left out, (really), what is in the parentheses.
std::string WordIn(std::string field) {
  const auto is_number = [](std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  };
  if (field.starts_with('<') && field.ends_with('>')) return "";
  if (const size_t open = field.rfind('(');
      open != std::string::npos && field.ends_with(')') &&
      is_number(std::string_view(field).substr(open + 1, field.size() - open - 2))) {
    field.resize(open);
  }
  while (field.starts_with('(')) field.erase(0, 1);
  while (field.ends_with(')')) field.pop_back();
  return field == "@" || field.starts_with('%') ? "" : field;
}

std::string SpokenText(const std::vector<std::string>& fields) {
  const std::span transcript = std::span(fields).subspan(kTextField);
  std::string text;
  for (const std::string& field : SplitWords(FirstAlternatives(fmt::format("{}", fmt::join(transcript, " "))))) {
    const std::string word = WordIn(field);
    if (!word.empty()) text += (text.empty() || word.starts_with('\'') ? "" : " ") + word;
  }
  return text;
}

class Stm : public CorpusFormat {
 public:
  Corpus Read(const fs::path& place, const std::string& part, std::vector<DataProblem>& problems) const override {
    const fs::path folder = Below(FolderOf(place), part);
    Corpus corpus{folder, {}};
    for (const fs::path& file : Files(place, folder)) {
      EachLine(file, [&](std::string_view line, const std::string& where) {
        if (!line.starts_with(";;")) AddLine(line, where, corpus, problems);
      });
    }
    NameChannels(corpus);
    return corpus;
  }

 private:
  static std::vector<fs::path> Files(const fs::path& place, const fs::path& folder) {
    std::error_code none;
    if (fs::is_regular_file(place, none)) return {place};
    if (!fs::is_directory(folder, none)) Throw<InputError>("'{}' does not exist", place.string());
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".stm") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    if (files.empty()) Throw<InputError>("'{}' holds no .stm files", folder.string());
    return files;
  }

  static void AddLine(std::string_view line, const std::string& where, Corpus& corpus,
                      std::vector<DataProblem>& problems) {
    const std::vector<std::string> fields = SplitWords(line);
    TranscriptRow row;
    if (fields.size() < kTextField || !ParseReal(fields[3], row.start_s) || !ParseReal(fields[4], row.end_s)) {
      problems.push_back({where, "expected FILE CHANNEL SPEAKER START END TEXT; the line is left out", false});
      return;
    }
    row.where = where;
    row.file = fields[0];
    row.channel = fields[1];
    row.speaker = fields[2];
    row.is_part = row.has_times = true;
    try {
      row.text = SpokenText(fields);
      if (FoldCase(row.text) != "ignore_time_segment_in_scoring") corpus.rows.push_back(std::move(row));
    } catch (const InputError& e) {
      problems.push_back({where, e.message() + "; the line is left out", false});
    }
  }

  // 0 if it is none.
  static int NumberIn(const std::string& channel) {
    int number = 0;
    const char* const end = channel.data() + channel.size();
    const auto [last, error] = std::from_chars(channel.data(), end, number);
    return error == std::errc() && last == end ? number : 0;
  }

  static void NameChannels(Corpus& corpus) {
    std::map<std::string, std::set<std::string>> channels;
    for (const TranscriptRow& row : corpus.rows) channels[row.file].insert(row.channel);
    for (TranscriptRow& row : corpus.rows) {
      const std::set<std::string>& of_file = channels[row.file];
      if (of_file == std::set<std::string>{"1"}) {
        row.channel.clear();
      } else if (const int number = NumberIn(row.channel); number > 0 && !of_file.contains("0")) {
        row.channel = ChannelName(number - 1);
      }
    }
  }
};

REGISTER_CORPUS_FORMAT("stm", Stm);

}  // namespace
}  // namespace antiphon::data
