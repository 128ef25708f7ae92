#include "data/transcript_table.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
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
};

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
      {"utterance_id", &Columns::id}};
  const auto it = kNames.find(AsciiLower(name));
  return it == kNames.end() ? nullptr : it->second;
}

// From the first row if it is a header; nullopt if it is data.
std::optional<Columns> ReadHeader(const TableRow& row, const std::string& source) {
  Columns found{kNoColumn, kNoColumn, kNoColumn, kNoColumn, kNoColumn};
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

// An id from a path or a name: what Kaldi's tools cannot take becomes '_'.
std::string CleanId(std::string text) {
  for (char& c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (u <= 0x20 || u == 0x7f || c == '/' || c == '|' || c == '[' || c == ']') c = '_';
  }
  return text;
}

// Audio files below a folder: by path relative to it, and by stem where that is unique.
class AudioFiles {
 public:
  explicit AudioFiles(const fs::path& folder) {
    static const std::set<std::string> kExtensions = {".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif",
                                                      ".au",  ".sph",  ".oga", ".w64",  ".caf", ".wv"};
    std::error_code error;
    if (!fs::is_directory(folder, error)) Throw<InputError>("'{}' is no folder of audio files", folder.string());
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file(error) || kExtensions.count(AsciiLower(entry.path().extension().string())) == 0)
        continue;
      const fs::path relative = entry.path().lexically_relative(folder);
      unused_.insert(relative.string());
      paths_.insert(relative.string());
      by_name_[relative.filename().string()].push_back(relative.string());
      by_name_[relative.stem().string()].push_back(relative.string());
    }
  }

  /// The relative path that a table's field means: a path, a file name or a name without ending. Throws InputError.
  std::string Find(const std::string& field) {
    std::string wanted = fs::path(field).lexically_normal().string();
    if (paths_.count(wanted) == 0) {
      const auto it = by_name_.find(fs::path(wanted).filename().string());
      if (it == by_name_.end()) Throw<InputError>("there is no audio file '{}'", field);
      if (it->second.size() > 1) {
        Throw<InputError>("'{}' may be '{}' or '{}'; write the path", field, it->second[0], it->second[1]);
      }
      wanted = it->second[0];
    }
    unused_.erase(wanted);
    return wanted;
  }
  /// The name without ending if that is unique, else the path without ending.
  std::string ShortName(const std::string& path) const {
    const std::string stem = fs::path(path).stem().string();
    return by_name_.at(stem).size() == 1 ? stem : fs::path(path).replace_extension().string();
  }
  const std::set<std::string>& unused() const { return unused_; }
  bool empty() const { return paths_.empty(); }

 private:
  std::set<std::string> paths_;
  std::set<std::string> unused_;
  std::map<std::string, std::vector<std::string>> by_name_;
};

std::string SpeakerOf(const fs::path& audio, const std::string& column, const std::string& utterance,
                      const std::string& from) {
  if (from == "folder" && audio.has_parent_path()) return CleanId(audio.parent_path().filename().string());
  if (from == "prefix") {
    const std::string stem = audio.stem().string();
    return CleanId(stem.substr(0, stem.find_first_of("-_")));
  }
  if (from == "column" && !column.empty()) return CleanId(column);
  return utterance;
}

// Unicode code points of valid UTF-8.
char32_t NextCodePoint(std::string_view text, size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at++]);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  char32_t c = lead & (0x3f >> more);
  for (int i = 0; i < more; ++i) c = (c << 6) | (static_cast<unsigned char>(text[at++]) & 0x3f);
  return c;
}

void AppendCodePoint(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

// One-to-one case pairs of the alphabets below U+0530; everything else has no case here.
char32_t ToUpper(char32_t c) {
  if (c >= 'a' && c <= 'z') return c - 0x20;
  if ((c >= 0xe0 && c <= 0xfe && c != 0xf7) || (c >= 0x3b1 && c <= 0x3c9 && c != 0x3c2) || (c >= 0x430 && c <= 0x44f))
    return c - 0x20;
  if (c == 0xff) return 0x178;
  if (c >= 0x450 && c <= 0x45f) return c - 0x50;
  const bool even_upper = (c >= 0x100 && c <= 0x137 && c != 0x131) || (c >= 0x14a && c <= 0x177) ||
                          (c >= 0x460 && c <= 0x481) || (c >= 0x48a && c <= 0x4bf) || (c >= 0x4d0 && c <= 0x52f);
  if (even_upper && c % 2 == 1) return c - 1;
  const bool odd_upper = (c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e);
  return odd_upper && c % 2 == 0 ? c - 1 : c;
}
char32_t ToLower(char32_t c) {
  if (c == 0x178) return 0xff;
  if (c == 0x130) return 'i';
  for (const char32_t distance : {U'\x20', U'\x50', U'\x01'}) {
    if (ToUpper(c + distance) == c && c + distance != c) return c + distance;
  }
  return c;
}

bool IsPunctuation(char32_t c) {
  if (c < 0x80) return (c > 0x20 && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 0x7f);
  return (c >= 0xa1 && c <= 0xbf && c != 0xaa && c != 0xb5 && c != 0xba && c != 0xb2 && c != 0xb3 && c != 0xb9) ||
         (c >= 0x2010 && c <= 0x205e) || (c >= 0x3001 && c <= 0x3003) || (c >= 0x3008 && c <= 0x301f) || c == 0xff01 ||
         c == 0xff0c || c == 0xff0e || c == 0xff1a || c == 0xff1b || c == 0xff1f;
}

bool StaysWithin(char32_t c) { return c == '\'' || c == '-' || c == 0x2019; }

std::string NormaliseWord(std::string_view word, const PrepareOptions& options) {
  std::vector<char32_t> letters;
  for (size_t at = 0; at < word.size();) letters.push_back(NextCodePoint(word, at));
  std::string out;
  for (size_t i = 0; i < letters.size(); ++i) {
    char32_t c = letters[i];
    if (options.strip_punctuation && IsPunctuation(c)) {
      const bool inside =
          i > 0 && i + 1 < letters.size() && !IsPunctuation(letters[i - 1]) && !IsPunctuation(letters[i + 1]);
      if (!StaysWithin(c) || !inside) continue;
      if (c == 0x2019) c = '\'';
    }
    if (options.case_folding == "upper") c = ToUpper(c);
    if (options.case_folding == "lower") c = ToLower(c);
    AppendCodePoint(c, out);
  }
  return out;
}

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

std::string NormaliseTranscript(std::string_view text, const PrepareOptions& options) {
  std::string out;
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '\n', ' ');
  for (const std::string& word : SplitWords(spaced)) {
    const std::string normal = NormaliseWord(word, options);
    if (!normal.empty()) out += (out.empty() ? "" : " ") + normal;
  }
  return out;
}

DataDir PrepareDataDir(const fs::path& audio_folder, const fs::path& table, const PrepareOptions& options,
                       std::vector<DataProblem>& problems) {
  AudioFiles files(audio_folder);
  if (files.empty()) Throw<InputError>("'{}' holds no audio files (WAV, FLAC, Ogg, Opus …)", audio_folder.string());
  const std::string text = ReadFile(table);
  const char separator = SeparatorOf(table, text, options.separator);
  const bool quotes = AsciiLower(table.extension().string()) != ".tsv";
  const std::vector<TableRow> rows = ParseSeparatedValues(text, separator, quotes, table.string());
  if (rows.empty()) Throw<InputError>("'{}' is empty; expected rows of file and text", table.string());
  const std::optional<Columns> header = ReadHeader(rows[0], table.string());
  Columns columns = header.value_or(Columns{0, 1, 2, 3, kNoColumn});

  DataDir dir;
  std::set<std::string> seen;
  for (size_t i = header ? 1 : 0; i < rows.size(); ++i) {
    const TableRow& row = rows[i];
    const std::string where = fmt::format("{}:{}", table.string(), row.line);
    try {
      if (row.fields.size() <= std::max(columns.file, columns.text)) {
        Throw<InputError>("{} columns; expected at least {} (file and text, separated by {})", row.fields.size(),
                          std::max(columns.file, columns.text) + 1,
                          separator == '\t' ? "tabs" : fmt::format("'{}'", separator));
      }
      for (const std::string& field : row.fields) {
        if (FindBadUtf8(field) != std::string_view::npos)
          Throw<InputError>("no UTF-8; convert the file (iconv -f latin1 -t utf8)");
      }
      const std::string audio = files.Find(FieldAt(row, columns.file));
      const std::string words = NormaliseTranscript(FieldAt(row, columns.text), options);
      if (words.empty()) Throw<InputError>("the transcript of '{}' is empty", audio);
      const std::string own_id = FieldAt(row, columns.id);
      std::string id = CleanId(own_id.empty() ? files.ShortName(audio) : own_id);
      const std::string speaker = SpeakerOf(audio, FieldAt(row, columns.speaker), id, options.speaker_from);
      if (!id.starts_with(speaker)) id = speaker + "-" + id;
      if (!seen.insert(id).second) Throw<InputError>("utterance '{}' is there twice", id);
      if (const std::string gender = AsciiLower(FieldAt(row, columns.gender));
          gender.starts_with("m") || gender.starts_with("f")) {
        dir.SetGender(speaker, gender.substr(0, 1));
      }
      dir.AddRecording({id, fs::absolute(audio_folder / audio).lexically_normal().string(), 0});
      Utterance u;
      u.utt_id = id;
      u.speaker = speaker;
      u.words = SplitWords(words);
      u.has_transcript = true;
      u.recording = dir.recordings().size() - 1;
      dir.AddUtterance(std::move(u));
    } catch (const InputError& e) {
      problems.push_back({where, std::string(e.what()) + "; the row is left out", false});
    }
  }
  if (!files.unused().empty()) {
    problems.push_back({audio_folder.string(),
                        fmt::format("{} audio files without a row in the table are left out, the first: '{}'",
                                    files.unused().size(), *files.unused().begin()),
                        false});
  }
  if (dir.utterances().empty()) {
    Throw<InputError>("'{}': not one row could be used{}", table.string(),
                      problems.empty() ? "" : fmt::format("; the first: {}: {}", problems[0].where, problems[0].what));
  }
  return dir;
}

}  // namespace antiphon::data
