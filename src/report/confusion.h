// How often each phone was taken for each other, and its file, `confusion.json` of a run folder.
//
// Errors: InputError for a file that is no square table; IoError.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace antiphon::report {

/// How often phone `row` was taken for phone `column`, in frames.
struct Confusion {
  std::vector<std::string> names;
  std::vector<std::vector<double>> counts;
  double accuracy() const;
  void Save(const std::filesystem::path& path) const;
  static Confusion Load(const std::filesystem::path& path);
};

}  // namespace antiphon::report
