// Audio where a command expects a data directory: a file, or a folder of files, becomes one.
//
// Threads: one caller per member of a team. Errors: InputError naming files that cannot be read, if none can;
// UsageError for options that only audio itself takes.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/team.h"
#include "data/data_dir.h"

namespace antiphon::pipeline {

struct AudioPlaceOptions {
  std::string channels = "mean";
  template <class V>
  void Visit(V& v) {
    v("channels", channels, OneOf{{"mean", "each"}},
      "of audio files with several: their mean, or each as recordings of its own, as for calls with a party on each");
  }
};

/// Where the words of audio come from, if they are wanted.
struct AudioTexts {
  std::string table;                                                  // as antiphon prepare takes it
  bool beside = false;                                                // without a table: .txt, .lab, .TextGrid beside
  std::function<std::string(const std::string& text)> spelling = {};  // as they are to be; null: as they are
};

/// `place` itself if it is a data directory, or a folder of features and transcripts; else out/data, a data directory
/// of the audio there, with its words. What cannot be used is added to the first member's `problems`; without them it
/// is warned of. Collective: the first member writes.
std::string DataDirectoryOf(const std::string& place, const AudioTexts& texts, const AudioPlaceOptions& options,
                            const std::filesystem::path& out, Team& team,
                            std::vector<data::DataProblem>* problems = nullptr);

/// Of the first of them, and how many more there are.
void WarnOf(const std::vector<data::DataProblem>& problems);

}  // namespace antiphon::pipeline
