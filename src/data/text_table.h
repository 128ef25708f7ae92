// Text files of "KEY rest of the line", sorted by key, each key once: the form of every file of a data directory.
//
// Threads: pure functions. Errors: collected as DataProblem with file:line, so that a check can report all of them;
// IoError if the file cannot be read.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/data_dir.h"

namespace antiphon::data {

struct TextLine {
  std::string key;
  std::string rest;  // without blanks at its ends
  int line = 0;      // from 1
};

/// The lines of `path`. Adds problems: lines without a key and keys that are there twice (fatal; the later line is left
/// out), bad UTF-8 (fatal), a file that is not sorted in C order, an empty file, a last line without its end.
std::vector<TextLine> ReadTextTable(const std::filesystem::path& path, std::vector<DataProblem>& problems);

/// Pieces between blanks.
std::vector<std::string> SplitWords(std::string_view text);

/// A whole field as a finite number.
bool ParseReal(std::string_view field, double& value);

}  // namespace antiphon::data
