#include "data/transcript_table.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/trim.h"
#include "base/utf8.h"
#include "data/audio_files.h"
#include "data/channels.h"
#include "data/speaker_name.h"
#include "data/text_table.h"
#include "feat/audio.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNoColumn = static_cast<size_t>(-1);

struct Columns {
  size_t file = 0;
  size_t text = 1;
  size_t speaker = kNoColumn;
  size_t gender = kNoColumn;
  size_t id = kNoColumn;
  size_t start = kNoColumn;
  size_t end = kNoColumn;
  size_t channel = kNoColumn;
  bool cut() const { return start != kNoColumn || end != kNoColumn || channel != kNoColumn; }
};

Columns DefaultColumns() {
  Columns columns;
  columns.speaker = 2;
  columns.gender = 3;
  return columns;
}

std::string AsciiLower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// Column meant by a header's name; nullptr if the name is none that is known.
size_t Columns::*ColumnOf(const std::string& name) {
  static const std::map<std::string, size_t Columns::*> kNames = {
      {"file", &Columns::file},          {"path", &Columns::file},
      {"filename", &Columns::file},      {"file_name", &Columns::file},
      {"audio", &Columns::file},         {"wav", &Columns::file},
      {"audio_path", &Columns::file},    {"wav_filename", &Columns::file},
      {"text", &Columns::text},          {"transcript", &Columns::text},
      {"transcription", &Columns::text}, {"sentence", &Columns::text},
      {"words", &Columns::text},         {"speaker", &Columns::speaker},
      {"speaker_id", &Columns::speaker}, {"spk", &Columns::speaker},
      {"client_id", &Columns::speaker},  {"gender", &Columns::gender},
      {"sex", &Columns::gender},         {"id", &Columns::id},
      {"utt_id", &Columns::id},          {"utterance", &Columns::id},
      {"utterance_id", &Columns::id},    {"start", &Columns::start},
      {"start_s", &Columns::start},      {"end", &Columns::end},
      {"end_s", &Columns::end},          {"channel", &Columns::channel}};
  const auto it = kNames.find(AsciiLower(name));
  return it == kNames.end() ? nullptr : it->second;
}

// From the first row if it is a header; nullopt if it is data.
std::optional<Columns> ReadHeader(const TableRow& row, const std::string& source) {
  Columns found;
  found.file = found.text = kNoColumn;
  for (size_t i = 0; i < row.fields.size(); ++i) {
    size_t Columns::*const column = ColumnOf(row.fields[i]);
    if (column == nullptr) continue;
    if (found.*column != kNoColumn) Throw<InputError>("{}:{}: two columns mean '{}'", source, row.line, row.fields[i]);
    found.*column = i;
  }
  if (found.text == kNoColumn) return std::nullopt;
  if (found.file == kNoColumn) std::swap(found.file, found.id);
  if (found.file == kNoColumn) return std::nullopt;
  return found;
}

char SeparatorOf(const fs::path& table, std::string_view text, const std::string& option) {
  if (option == "tab") return '\t';
  if (option == "comma") return ',';
  if (option == "semicolon") return ';';
  const std::string extension = AsciiLower(table.extension().string());
  const std::string_view first = text.substr(0, text.find('\n'));
  if (extension == ".tsv" || first.find('\t') != std::string_view::npos) return '\t';
  return std::count(first.begin(), first.end(), ';') > std::count(first.begin(), first.end(), ',') ? ';' : ',';
}

std::string FieldAt(const TableRow& row, size_t column) {
  return column < row.fields.size() ? row.fields[column] : std::string();
}

// Turns rows into utterances.
class TableJoiner {
 public:
  TableJoiner(const fs::path& audio_folder, const Columns& columns, const PrepareOptions& options)
      : files_(audio_folder), columns_(columns), options_(options) {}

  void Add(const TableRow& row) {
    for (const std::string& field : row.fields) {
      if (FindBadUtf8(field) != std::string_view::npos)
        Throw<InputError>("no UTF-8; convert the file (iconv -f latin1 -t utf8)");
    }
    const std::string audio = files_.Find(FieldAt(row, columns_.file));
    const std::string words = NormaliseTranscript(FieldAt(row, columns_.text), options_);
    if (words.empty()) Throw<InputError>("the transcript of '{}' is empty", audio);
    Utterance u;
    ReadTimes(row, u);
    ReadChannel(row, audio, u);
    const std::string own_id = FieldAt(row, columns_.id);
    u.utt_id = CleanId(own_id.empty() ? files_.ShortName(audio) : own_id);
    if (own_id.empty() && columns_.start != kNoColumn) u.utt_id += fmt::format("-{:07.0f}", 100.0 * u.start_s);
    if (own_id.empty() && u.channel >= 0) u.utt_id += "-" + ChannelName(u.channel);
    u.speaker = SpeakerOf(audio, FieldAt(row, columns_.speaker), u.utt_id, options_.speaker_from);
    if (!u.utt_id.starts_with(u.speaker)) u.utt_id = u.speaker + "-" + u.utt_id;
    if (!seen_.insert(u.utt_id).second) Throw<InputError>("utterance '{}' is there twice", u.utt_id);
    const std::string gender = AsciiLower(FieldAt(row, columns_.gender));
    if (gender.starts_with("m") || gender.starts_with("f")) dir_.SetGender(u.speaker, gender.substr(0, 1));
    u.words = SplitWords(words);
    u.has_transcript = true;
    u.recording = RecordingOf(audio, u.utt_id);
    dir_.AddUtterance(std::move(u));
  }

  const AudioFiles& files() const { return files_; }
  DataDir& dir() { return dir_; }

 private:
  void ReadTimes(const TableRow& row, Utterance& u) const {
    if (columns_.start == kNoColumn && columns_.end == kNoColumn) return;
    const std::string start = FieldAt(row, columns_.start);
    const std::string end = FieldAt(row, columns_.end);
    if ((!start.empty() && !ParseReal(start, u.start_s)) || (!end.empty() && !ParseReal(end, u.end_s)) ||
        u.start_s < 0.0 || (!end.empty() && u.end_s <= u.start_s)) {
      Throw<InputError>("expected start and end in seconds, found '{}' and '{}'", start, end);
    }
  }

  void ReadChannel(const TableRow& row, const std::string& audio, Utterance& u) const {
    const std::string channel = FieldAt(row, columns_.channel);
    if (!channel.empty()) u.channel = ParseChannel(Trim(channel));
    if (u.channel >= 0 || options_.channels != "each") return;
    const int channels = feat::ProbeAudio(files_.folder() / audio).num_channels;
    if (channels > 1) {
      Throw<InputError>(
          "'{}' has {} channels: a column 'channel' (A, B …) has to say to which of them the text belongs", audio,
          channels);
    }
  }

  // A file with times or channels holds several utterances, and is a recording of its own name.
  size_t RecordingOf(const std::string& audio, const std::string& utt_id) {
    const auto [it, is_new] = recordings_.emplace(audio, dir_.recordings().size());
    if (is_new || !columns_.cut()) {
      dir_.AddRecording({columns_.cut() ? CleanId(files_.ShortName(audio)) : utt_id,
                         fs::absolute(files_.folder() / audio).lexically_normal().string(), 0});
      it->second = dir_.recordings().size() - 1;
    }
    return it->second;
  }

  AudioFiles files_;
  Columns columns_;
  const PrepareOptions& options_;
  std::set<std::string> seen_;
  std::map<std::string, size_t> recordings_;
  DataDir dir_;
};

}  // namespace

std::vector<TableRow> ParseSeparatedValues(std::string_view text, char separator, bool quotes,
                                           const std::string& source) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::vector<TableRow> rows;
  TableRow row{{}, 1};
  std::string field;
  bool was_quoted = false;
  int line = 1;
  const auto end_row = [&] {
    row.fields.push_back(std::move(field));
    if (row.fields.size() > 1 || !row.fields[0].empty() || was_quoted) rows.push_back(std::move(row));
    row = {{}, line};
    field.clear();
    was_quoted = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quotes && c == '"' && field.empty() && !was_quoted) {
      was_quoted = true;
      const int opened = line;
      for (++i;; ++i) {
        if (i >= text.size()) Throw<InputError>("{}:{}: a quote is opened and never closed", source, opened);
        if (text[i] == '"' && (i + 1 >= text.size() || text[i + 1] != '"')) break;
        if (text[i] == '"') ++i;
        if (text[i] == '\n') ++line;
        field += text[i];
      }
    } else if (c == separator) {
      row.fields.push_back(std::move(field));
      field.clear();
      was_quoted = false;
    } else if (c == '\n') {
      ++line;
      end_row();
    } else if (c != '\r' || (i + 1 < text.size() && text[i + 1] != '\n')) {
      field += c;
    }
  }
  if (!field.empty() || !row.fields.empty()) end_row();
  return rows;
}

DataDir PrepareDataDir(const fs::path& audio_folder, const fs::path& table, const PrepareOptions& options,
                       std::vector<DataProblem>& problems) {
  const std::string text = ReadFile(table);
  const char separator = SeparatorOf(table, text, options.separator);
  const bool quotes = AsciiLower(table.extension().string()) != ".tsv";
  const std::vector<TableRow> rows = ParseSeparatedValues(text, separator, quotes, table.string());
  if (rows.empty()) Throw<InputError>("'{}' is empty; expected rows of file and text", table.string());
  const std::optional<Columns> header = ReadHeader(rows[0], table.string());
  const Columns columns = header.value_or(DefaultColumns());
  const size_t least_columns = std::max(columns.file, columns.text) + 1;

  TableJoiner joiner(audio_folder, columns, options);
  for (size_t i = header ? 1 : 0; i < rows.size(); ++i) {
    try {
      if (rows[i].fields.size() < least_columns) {
        Throw<InputError>("{} columns; expected at least {} (file and text, separated by {})", rows[i].fields.size(),
                          least_columns, separator == '\t' ? "tabs" : fmt::format("'{}'", separator));
      }
      joiner.Add(rows[i]);
    } catch (const InputError& e) {
      problems.push_back(
          {fmt::format("{}:{}", table.string(), rows[i].line), std::string(e.what()) + "; the row is left out", false});
    }
  }
  if (const auto& unused = joiner.files().unused(); !unused.empty()) {
    problems.push_back({audio_folder.string(),
                        fmt::format("{} audio files without a row in the table are left out, the first: '{}'",
                                    unused.size(), *unused.begin()),
                        false});
  }
  if (joiner.dir().utterances().empty()) {
    Throw<InputError>("'{}': not one row could be used{}", table.string(),
                      problems.empty() ? "" : fmt::format("; the first: {}: {}", problems[0].where, problems[0].what));
  }
  return std::move(joiner.dir());
}

}  // namespace antiphon::data
