#include "data/transcript_rows.h"

#include <map>

#include "base/error.h"
#include "base/trim.h"
#include "base/utf8.h"
#include "data/audio_files.h"
#include "data/channels.h"
#include "data/speaker_name.h"
#include "data/text_table.h"
#include "feat/audio.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

// "m", "f" or "".
std::string GenderOf(const std::string& said) {
  if (said.empty()) return "";
  const char first = said[0];
  return first == 'm' || first == 'M' ? "m" : first == 'f' || first == 'F' ? "f" : "";
}

// Turns rows into utterances.
class TranscriptJoiner {
 public:
  TranscriptJoiner(const fs::path& audio, const PrepareOptions& options) : files_(audio), options_(options) {}

  void Add(const TranscriptRow& row) {
    for (const std::string* field : {&row.file, &row.text, &row.speaker, &row.gender, &row.id, &row.channel}) {
      if (FindBadUtf8(*field) != std::string_view::npos)
        Throw<InputError>("no UTF-8; convert the file (iconv -f latin1 -t utf8)");
      if (field->find('\0') != std::string::npos) Throw<InputError>("it holds a zero byte: that is no text");
    }
    const std::string audio = files_.Find(row.file);
    const std::string words = NormaliseTranscript(row.text, options_);
    if (words.empty()) Throw<InputError>("the transcript of '{}' is empty", audio);
    Utterance u;
    ReadTimes(row, u);
    ReadChannel(row, audio, u);
    u.utt_id = CleanId(row.id.empty() ? files_.ShortName(audio) : row.id);
    if (row.id.empty() && row.has_times) u.utt_id += fmt::format("-{:07.0f}", 100.0 * u.start_s);
    const std::string ending = u.channel >= 0 ? "-" + ChannelName(u.channel) : "";
    if (row.id.empty()) u.utt_id += ending;
    u.speaker = SpeakerOf(audio, row.speaker, u.utt_id, options_.speaker_from, ending);
    if (!u.utt_id.starts_with(u.speaker)) u.utt_id = u.speaker + "-" + u.utt_id;
    u.words = SplitWords(words);
    if (row.id.empty() && row.has_times) u.utt_id = IdBesidesOthers(u, audio);
    if (utterances_.contains(u.utt_id)) Throw<InputError>("utterance '{}' is there twice", u.utt_id);
    if (const std::string gender = GenderOf(row.gender); !gender.empty()) dir_.SetGender(u.speaker, gender);
    u.has_transcript = true;
    u.recording = RecordingOf(row, audio, u.utt_id);
    std::string id = u.utt_id;
    utterances_.emplace(std::move(id), std::move(u));
  }

  const AudioFiles& files() const { return files_; }

  /// What was added; nothing is left here.
  DataDir Take() {
    dir_.AddUtterances(std::move(utterances_));
    return std::move(dir_);
  }

 private:
  static void ReadTimes(const TranscriptRow& row, Utterance& u) {
    u.start_s = row.start_s;
    u.end_s = row.end_s >= 0.0 ? row.end_s : -1.0;
    if (u.start_s < 0.0 || (u.end_s >= 0.0 && u.end_s <= u.start_s)) {
      Throw<InputError>("expected start and end in seconds, found '{}' and '{}'", u.start_s, u.end_s);
    }
  }

  void ReadChannel(const TranscriptRow& row, const std::string& audio, Utterance& u) const {
    if (!row.channel.empty()) u.channel = ParseChannel(Trim(row.channel));
    if (u.channel >= 0 || options_.channels != "each") return;
    const int channels = feat::ProbeAudioFormat(files_.folder() / audio).num_channels;
    if (channels > 1) {
      Throw<InputError>(
          "'{}' has {} channels: a column 'channel' (A, B …) has to say to which of them the text belongs", audio,
          channels);
    }
  }

  // Parts of a file that start within what an id says of the time are numbered; the same part again is none.
  std::string IdBesidesOthers(const Utterance& u, const std::string& audio) const {
    std::string id = u.utt_id;
    for (int number = 2; utterances_.contains(id); ++number) {
      const Utterance& other = utterances_.at(id);
      const bool is_same = audio_of_.at(dir_.recordings()[other.recording].id) == audio;
      if (is_same && other.start_s == u.start_s && other.end_s == u.end_s && other.words == u.words) break;
      id = fmt::format("{}-{}", u.utt_id, number);
    }
    return id;
  }

  // A file of several utterances is a recording of its own name.
  size_t RecordingOf(const TranscriptRow& row, const std::string& audio, const std::string& utt_id) {
    const auto [it, is_new] = recordings_.emplace(audio, dir_.recordings().size());
    if (is_new || !row.is_part) {
      const std::string id = RecordingId(row.is_part ? CleanId(files_.ShortName(audio)) : utt_id, audio);
      it->second = dir_.AddRecording({id, fs::absolute(files_.folder() / audio).lexically_normal().string(), 0});
    }
    return it->second;
  }

  // Of files whose names make one id ("a b" and "a_b"), those behind the first are numbered.
  std::string RecordingId(const std::string& name, const std::string& audio) {
    std::string id = name;
    for (int number = 2; audio_of_.emplace(id, audio).first->second != audio; ++number) {
      id = fmt::format("{}-{}", name, number);
    }
    return id;
  }

  AudioFiles files_;
  const PrepareOptions& options_;
  std::map<std::string, Utterance> utterances_;
  std::map<std::string, size_t> recordings_;     // by audio
  std::map<std::string, std::string> audio_of_;  // by recording
  DataDir dir_;
};

}  // namespace

DataDir JoinTranscripts(const fs::path& audio, const std::vector<TranscriptRow>& rows, const std::string& source,
                        const PrepareOptions& options, std::vector<DataProblem>& problems) {
  TranscriptJoiner joiner(audio, options);
  for (const TranscriptRow& row : rows) {
    try {
      joiner.Add(row);
    } catch (const InputError& e) {
      problems.push_back({row.where, std::string(e.what()) + "; the row is left out", false});
    }
  }
  if (const auto& unused = joiner.files().unused(); !unused.empty()) {
    problems.push_back({audio.string(),
                        fmt::format("{} audio files without a transcript are left out, the first: '{}'", unused.size(),
                                    *unused.begin()),
                        false});
  }
  DataDir dir = joiner.Take();
  if (dir.utterances().empty()) {
    Throw<InputError>("'{}': not one row could be used{}", source,
                      problems.empty() ? "" : fmt::format("; the first: {}: {}", problems[0].where, problems[0].what));
  }
  return dir;
}

}  // namespace antiphon::data
