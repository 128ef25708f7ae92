#include "data/transcript_table.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "data/text_table.h"

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
  static const std::map<std::string, size_t Columns::*> k_names = {
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
  const auto it = k_names.find(AsciiLower(name));
  return it == k_names.end() ? nullptr : it->second;
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

double Seconds(const std::string& field, const char* column) {
  double seconds = 0.0;
  if (!ParseReal(field, seconds) || seconds < 0.0)
    Throw<InputError>("expected seconds in '{}', found '{}'", column, field);
  return seconds;
}

TranscriptRow RowOf(const TableRow& row, const Columns& columns) {
  TranscriptRow found;
  found.file = FieldAt(row, columns.file);
  found.text = FieldAt(row, columns.text);
  found.speaker = FieldAt(row, columns.speaker);
  found.gender = FieldAt(row, columns.gender);
  found.id = FieldAt(row, columns.id);
  found.channel = FieldAt(row, columns.channel);
  found.is_part = columns.start != kNoColumn || columns.end != kNoColumn || columns.channel != kNoColumn;
  if (const std::string start = FieldAt(row, columns.start); !start.empty()) found.start_s = Seconds(start, "start");
  if (const std::string end = FieldAt(row, columns.end); !end.empty()) found.end_s = Seconds(end, "end");
  found.has_times = columns.start != kNoColumn;
  return found;
}

}  // namespace

std::vector<TableRow> ParseSeparatedValues(std::string_view text, char separator, bool quotes,
                                           const std::string& source) {
  text = WithoutByteOrderMark(text);
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

std::vector<TranscriptRow> ReadTranscriptTable(const fs::path& table, const std::string& separator,
                                               std::vector<DataProblem>& problems) {
  const std::string text = ReadFile(table);
  const char sign = SeparatorOf(table, text, separator);
  const bool quotes = AsciiLower(table.extension().string()) != ".tsv";
  const std::vector<TableRow> rows = ParseSeparatedValues(text, sign, quotes, table.string());
  if (rows.empty()) Throw<InputError>("'{}' is empty; expected rows of file and text", table.string());
  const std::optional<Columns> header = ReadHeader(rows[0], table.string());
  const Columns columns = header.value_or(DefaultColumns());
  const size_t least_columns = std::max(columns.file, columns.text) + 1;
  std::vector<TranscriptRow> found;
  for (size_t i = header ? 1 : 0; i < rows.size(); ++i) {
    const std::string where = fmt::format("{}:{}", table.string(), rows[i].line);
    try {
      if (rows[i].fields.size() < least_columns) {
        Throw<InputError>("{} columns; expected at least {} (file and text, separated by {})", rows[i].fields.size(),
                          least_columns, sign == '\t' ? "tabs" : fmt::format("'{}'", sign));
      }
      found.push_back(RowOf(rows[i], columns));
      found.back().where = where;
    } catch (const InputError& e) {
      problems.push_back({where, std::string(e.what()) + "; the row is left out", false});
    }
  }
  return found;
}

DataDir PrepareDataDir(const fs::path& audio_folder, const fs::path& table, const PrepareOptions& options,
                       std::vector<DataProblem>& problems) {
  const auto rows = ReadTranscriptTable(table, options.separator, problems);
  return JoinTranscripts(audio_folder, rows, table.string(), options, problems);
}

}  // namespace antiphon::data
