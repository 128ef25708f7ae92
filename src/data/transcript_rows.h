// What tables and manifests say of utterances, joined with audio files to a data directory.
//
// Threads: pure functions. Errors: InputError; problems that cost single rows are collected.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "data/data_dir.h"

namespace antiphon::data {

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
      "or '_' (with the channel behind, where one is given: the parties of a call), or each utterance its own");
    v("channels", channels, OneOf{{"mean", "each"}},
      "of recordings with several: their mean, or each as utterances of its own, as for calls with a party on each");
  }
};

/// An utterance as a source describes it, unchecked. Empty texts: it does not say.
struct TranscriptRow {
  std::string where;  // FILE:LINE
  std::string file;   // a path, a file name or a name without ending
  std::string text;
  std::string speaker;
  std::string gender;  // what begins with m or f
  std::string id;
  std::string channel;     // as ParseChannel takes it
  double start_s = 0.0;    // in the file
  double end_s = -1.0;     // negative: to its end
  bool is_part = false;    // the file may hold other utterances
  bool has_times = false;  // the start makes utterances of one file differ
};

/// Rows whose audio is missing or whose text is empty are left out and reported in `problems`, as are audio files
/// without a transcript. Utterance ids begin with the speaker, so that sorting groups them. Durations are not looked
/// at. `audio`: a folder, or one file. `source`: for messages. InputError if not one row can be used.
DataDir JoinTranscripts(const std::filesystem::path& audio, const std::vector<TranscriptRow>& rows,
                        const std::string& source, const PrepareOptions& options, std::vector<DataProblem>& problems);

/// Case and punctuation of one transcript as the options say, in Unicode's normalisation C; blanks of every kind become
/// single spaces, and signs that are not seen go. `text` is UTF-8.
std::string NormaliseTranscript(std::string_view text, const PrepareOptions& options);

}  // namespace antiphon::data
