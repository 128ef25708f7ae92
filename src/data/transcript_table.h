// A table of transcripts (TSV or CSV) and a folder of audio files, joined to a data directory.
//
// Columns: a file name or id, the text, and optionally speaker, gender, utterance id, start and end in seconds
// where a file holds several utterances, and the channel (A, B …; left, right; 0, 1 …) in which the text is said. A
// first row of column names says which is which: "path", "file", "filename", "audio", "wav", "id"; "text",
// "transcript", "sentence" …; "speaker", "client_id" …; "gender", "sex"; "start", "end"; "channel". Without one the
// columns are taken in the order file, text, speaker, gender. CSV fields may be quoted as in RFC 4180, with line ends
// inside; in a file that ends in .tsv quotes mean nothing.
//
// Threads: pure functions. Errors: InputError with file:line; problems that cost single rows are collected.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "data/data_dir.h"

namespace antiphon::data {

struct TableRow {
  std::vector<std::string> fields;
  int line = 0;  // where it begins, from 1
};

/// Splits text at `separator`; a byte order mark and empty lines are passed over. InputError for an open quote.
std::vector<TableRow> ParseSeparatedValues(std::string_view text, char separator, bool quotes,
                                           const std::string& source);

struct PrepareOptions {
  std::string separator = "auto";
  std::string case_folding = "keep";
  bool strip_punctuation = false;
  std::string speaker_from = "column";
  std::string channels = "mean";
  template <class V>
  void Visit(V& v) {
    v("separator", separator, OneOf{{"auto", "tab", "comma", "semicolon"}}, "between the columns of the table");
    v("case", case_folding, OneOf{{"keep", "upper", "lower"}},
      "letters of the transcripts, in every alphabet that has case");
    v("strip-punctuation", strip_punctuation,
      "take punctuation and symbols of every script out of the transcripts; apostrophes and hyphens within words "
      "stay");
    v("speaker-from", speaker_from, OneOf{{"column", "folder", "prefix", "utterance"}},
      "speaker of a row: its column (else the utterance), the audio file's folder, the file name up to the first '-' "
      "or '_', or "
      "each utterance its own");
    v("channels", channels, OneOf{{"mean", "each"}},
      "of recordings with several: their mean, or each as utterances of its own, as for calls with a party on each");
  }
};

/// Joins. Rows whose audio is missing or whose text is empty are left out and reported in `problems`, as are audio
/// files without a row. Utterance ids begin with the speaker, so that sorting groups them. Durations are not looked at.
DataDir PrepareDataDir(const std::filesystem::path& audio_folder, const std::filesystem::path& table,
                       const PrepareOptions& options, std::vector<DataProblem>& problems);

/// Case and punctuation of one transcript as the options say, in Unicode's normalisation C; blanks of every kind become
/// single spaces, and signs that are not seen go. `text` is UTF-8.
std::string NormaliseTranscript(std::string_view text, const PrepareOptions& options);

}  // namespace antiphon::data
