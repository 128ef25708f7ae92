// What is in a data directory: hours, speakers, vocabulary, out-of-lexicon words, durations, sampling rates.
//
// Threads: files are opened on several. Errors: as DataDir; an unreadable recording is counted, not thrown.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/data_dir.h"

namespace antiphon::data {

struct DataSummary {
  int64_t utterances = 0;
  int64_t recordings = 0;
  int64_t unreadable_recordings = 0;
  int64_t speakers = 0;
  int64_t without_transcript = 0;
  double seconds = 0.0;
  double shortest_s = 0.0;
  double median_s = 0.0;
  double longest_s = 0.0;
  std::map<std::string, double> speaker_seconds;
  std::map<int, int64_t> recordings_by_rate;      // Hz → recordings
  std::map<int, double> seconds_by_rate;          // Hz → speech
  std::map<int, int64_t> recordings_by_channels;  // of those with several
  int64_t utterances_of_channels = 0;             // that are one channel of their recording
  int64_t running_words = 0;
  int64_t vocabulary = 0;
  bool has_lexicon = false;
  int64_t oov_running_words = 0;
  std::vector<std::pair<std::string, int64_t>> oov;  // most frequent first, then by word
};

/// `lexicon`: known words; nullptr: not compared. Opens every recording for its duration and rate.
DataSummary Summarise(const DataDir& dir, const std::set<std::string>* lexicon, int num_threads = 0);

/// The words of a lexicon file: the first field of each line. Probabilities and phones are not looked at.
std::set<std::string> ReadLexiconWords(const std::filesystem::path& path);

/// The directory with durations from the recordings' headers where they are not known, without the utterances of
/// recordings that cannot be read or hold nothing, and without those of no length, as behind the end; each of those is
/// a problem. InputError if none is left.
DataDir WithDurations(DataDir dir, std::vector<DataProblem>& problems, int num_threads = 0);

/// Lines for a person, at most `shown_oov` out-of-lexicon words, and the same as a JSON object.
std::string FormatSummary(const DataSummary& summary, int shown_oov = 20);
std::string SummaryToJson(const DataSummary& summary);

}  // namespace antiphon::data
