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

#include "data/data_dir.h"
#include "data/transcript_rows.h"

namespace antiphon::data {

struct TableRow {
  std::vector<std::string> fields;
  int line = 0;  // where it begins, from 1
};

/// Splits text at `separator`; a byte order mark and empty lines are passed over. InputError for an open quote.
std::vector<TableRow> ParseSeparatedValues(std::string_view text, char separator, bool quotes,
                                           const std::string& source);

/// The rows of a table. Those that cannot be understood are left out and reported in `problems`. `separator`: as
/// PrepareOptions::separator.
std::vector<TranscriptRow> ReadTranscriptTable(const std::filesystem::path& table, const std::string& separator,
                                               std::vector<DataProblem>& problems);

/// Joins. Rows whose audio is missing or whose text is empty are left out and reported in `problems`, as are audio
/// files without a transcript. Utterance ids begin with the speaker, so that sorting groups them. Durations are not
/// looked at.
DataDir PrepareDataDir(const std::filesystem::path& audio_folder, const std::filesystem::path& table,
                       const PrepareOptions& options, std::vector<DataProblem>& problems);

}  // namespace antiphon::data
