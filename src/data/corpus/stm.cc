// TED-LIUM's and NIST's STM: FILE CHANNEL SPEAKER START END <LABELS> TEXT, a line per segment.
//
// FOLDER with PART/stm and PART/sph (TED-LIUM), or .stm files beside their audio, or one .stm file. Channels are named
// only where segments of one file differ in them, since "1" of a file that has one channel means all of it. Out of the
// text go {noises} and <marks>; " 's" joins its word. Source: sclite's manual, "stm file format"; TED-LIUM, README.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "data/corpus/corpus_files.h"
#include "data/corpus/corpus_format.h"
#include "data/text_table.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTextField = 5;  // with labels; without them the text

std::string SpokenText(const std::vector<std::string>& fields) {
  std::string text;
  for (size_t i = kTextField; i < fields.size(); ++i) {
    const std::string& field = fields[i];
    const bool is_mark =
        (field.starts_with('<') && field.ends_with('>')) || (field.starts_with('{') && field.ends_with('}'));
    if (is_mark) continue;
    text += (text.empty() || field.starts_with('\'') ? "" : " ") + field;
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
    row.text = SpokenText(fields);
    if (row.text != "ignore_time_segment_in_scoring") corpus.rows.push_back(std::move(row));
  }

  static void NameChannels(Corpus& corpus) {
    std::map<std::string, std::set<std::string>> channels;
    for (const TranscriptRow& row : corpus.rows) channels[row.file].insert(row.channel);
    for (TranscriptRow& row : corpus.rows) {
      if (channels[row.file].size() == 1) {
        row.channel.clear();
      } else if (row.channel == "1" || row.channel == "2") {  // counted from 1 there
        row.channel = row.channel == "1" ? "A" : "B";
      }
    }
  }
};

REGISTER_CORPUS_FORMAT("stm", Stm);

}  // namespace
}  // namespace antiphon::data
