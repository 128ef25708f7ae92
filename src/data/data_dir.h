// Kaldi data directories: which recordings there are, who speaks in them, what is said.
//
// Files: wav.scp (RECORDING PATH), text (UTTERANCE WORDS…), utt2spk, spk2utt; optional segments (UTTERANCE RECORDING
// START END in seconds, and perhaps a CHANNEL from 0), spk2gender, utt2dur. Without segments every recording is one
// utterance of the same name.
//
// An audio reference is a path, a path with the byte offset of a WAV inside an archive ("x.ark:1042"), or a command
// that writes a WAV ("sox … |"). A relative path is looked up, in this order, from: the audio root if one is given
// (then nowhere else), the working directory, the data directory, and each of its parents up to three levels, so that a
// corpus folder that holds audio/ and data/train/ works where it lies. Commands are run only if allowed.
//
// Threads: const methods may run together. Errors: InputError with file:line, expected, found; IoError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/options.h"

namespace antiphon::data {

struct Recording {
  std::string id;
  std::string reference;  // as written in wav.scp
  int line = 0;           // in wav.scp, from 1
};

/// What a recording's reference means: a command, or a file, perhaps from a byte on.
struct AudioReference {
  std::string command;  // without the '|'; empty for a file
  std::filesystem::path path;
  std::optional<uint64_t> offset;
};
AudioReference ParseAudioReference(std::string_view text);

/// The least that utt2dur tells.
inline constexpr double kShortestUtteranceS = 0.0001;

struct Utterance {
  std::string utt_id;
  std::string speaker;
  std::vector<std::string> words;
  bool has_transcript = false;  // a line in text, even an empty one
  size_t recording = 0;         // index into DataDir::recordings
  double start_s = 0.0;
  double end_s = -1.0;       // negative: to the end of the recording
  int channel = -1;          // of the recording, from 0; −1: the only one, or the mean of all
  double duration_s = -1.0;  // from utt2dur or the segment; negative: unknown
};

struct DataDirOptions {
  std::string audio_root;
  bool allow_commands = false;
  template <class V>
  void Visit(V& v) {
    v("audio-root", audio_root, "folder that relative paths in wav.scp start from; empty: looked up");
    v("allow-commands", allow_commands, "execute commands in wav.scp ('… |'); they can do anything that you can");
  }
};

/// Something wrong with a data directory. A fatal one makes it unusable; others cost an utterance or are mere disorder.
struct DataProblem {
  std::string where;  // "train/text:17"
  std::string what;   // expected, found, what to do
  bool fatal = false;
};

class DataDir;
namespace internal {
DataDir ReadDataDir(const std::filesystem::path& folder, const DataDirOptions& options,
                    std::vector<DataProblem>& problems);
}

class DataDir {
 public:
  DataDir() = default;
  /// Reads the files and joins them. What Validate would call fatal throws InputError here, the first of them.
  static DataDir Load(const std::filesystem::path& folder, const DataDirOptions& options = {});

  /// Every problem of a folder with file:line, most serious first: missing or unreadable files, broken lines, ids that
  /// are unsorted or there twice, bad UTF-8, utterances without audio, speaker or transcript, empty transcripts,
  /// missing audio files; with `check_audio` also opens each recording: rate, samples, segments past its end.
  static std::vector<DataProblem> Validate(const std::filesystem::path& folder, const DataDirOptions& options = {},
                                           bool check_audio = false);

  /// Writes wav.scp, text, utt2spk, spk2utt, and segments, spk2gender, utt2dur where known; sorted, each file
  /// atomically. References are written as they stand; with `absolute_audio` paths are made absolute, so that the
  /// folder can lie anywhere.
  void Write(const std::filesystem::path& folder, bool absolute_audio = false) const;

  /// Sorted by utt_id.
  const std::vector<Utterance>& utterances() const { return utterances_; }
  const std::vector<Recording>& recordings() const { return recordings_; }
  const std::map<std::string, std::string>& gender() const { return gender_; }
  const std::filesystem::path& folder() const { return folder_; }
  const DataDirOptions& options() const { return options_; }
  bool has_segments() const { return has_segments_; }
  /// Sorted, each once.
  std::vector<std::string> speakers() const;
  /// Index of an utterance; InputError if there is none.
  size_t Find(std::string_view utt_id) const;
  bool Has(std::string_view utt_id) const;

  /// The same directory with some of its utterances (indices in any order) and what they need.
  DataDir Subset(const std::vector<size_t>& utterances) const;
  /// {rest, held out}: whole speakers, at random, until they make up `fraction` of the utterances' duration (of their
  /// number where durations are not known). InputError for fewer than two speakers.
  std::pair<DataDir, DataDir> SplitBySpeaker(double fraction, uint64_t seed) const;

  /// The file that a recording's reference means, offset stripped; empty for a command. InputError naming every place
  /// looked at.
  std::filesystem::path ResolveAudio(const Recording& recording) const;

  // Construction by programs (antiphon prepare). InputError for an utterance that is there already.
  /// Index of the recording, which may be there already. InputError if another one has its id.
  size_t AddRecording(Recording recording);
  void AddUtterance(Utterance utterance);
  /// Those of a map by utt_id.
  void AddUtterances(std::map<std::string, Utterance> utterances);
  void SetDuration(size_t utterance, double duration_s) { utterances_.at(utterance).duration_s = duration_s; }
  void SetGender(const std::string& speaker, const std::string& gender) { gender_[speaker] = gender; }

 private:
  friend DataDir internal::ReadDataDir(const std::filesystem::path&, const DataDirOptions&, std::vector<DataProblem>&);

  std::filesystem::path folder_;
  DataDirOptions options_;
  std::vector<Recording> recordings_;
  std::unordered_map<std::string, size_t> recording_index_;  // by id; made by AddRecording
  std::vector<Utterance> utterances_;
  std::map<std::string, std::string> gender_;
  bool has_segments_ = false;
};

}  // namespace antiphon::data
