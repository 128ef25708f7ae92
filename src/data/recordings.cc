#include "data/recordings.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/audio_files.h"
#include "data/channels.h"
#include "data/speaker_name.h"
#include "feat/audio.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

// Of a recording called `name`, whose index is not known yet.
std::vector<Utterance> UtterancesOf(const std::string& path, const std::string& name, const feat::AudioInfo& info,
                                    const PrepareOptions& options) {
  const int channels = options.channels == "each" ? info.num_channels : 1;
  std::vector<Utterance> utterances;
  for (int channel = 0; channel < channels; ++channel) {
    const std::string ending = channels > 1 ? "-" + ChannelName(channel) : "";
    Utterance u;
    u.utt_id = name + ending;
    u.duration_s = info.duration_s();
    if (channels > 1) u.channel = channel;
    u.speaker = SpeakerOf(path, "", u.utt_id, options.speaker_from, ending);
    // Sorted by utterance, each speaker's stand together.
    if (u.speaker != u.utt_id) u.utt_id = u.speaker + "-" + u.utt_id;
    utterances.push_back(std::move(u));
  }
  return utterances;
}

// `known`: the utterances so far, by name.
void Add(const AudioFiles& files, const std::string& path, const PrepareOptions& options,
         std::map<std::string, Utterance>& known, DataDir& dir) {
  const fs::path file = fs::absolute(files.folder() / path).lexically_normal();
  const feat::AudioInfo info = feat::ProbeAudio(file);
  if (info.num_samples == 0) Throw<InputError>("it holds no samples");
  const std::string name = CleanId(files.ShortName(path));
  std::vector<Utterance> utterances = UtterancesOf(path, name, info, options);
  // A recording without its utterances must not stay behind.
  for (const Utterance& u : utterances) {
    const auto same = known.find(u.utt_id);
    if (same == known.end()) continue;
    const Recording& other = dir.recordings()[same->second.recording];
    Throw<InputError>("its utterance would be '{}', as that of '{}' is: rename one of them", u.utt_id, other.reference);
  }
  const size_t recording = dir.AddRecording({name, file.string(), 0});
  for (Utterance& u : utterances) {
    u.recording = recording;
    std::string id = u.utt_id;
    known.emplace(std::move(id), std::move(u));
  }
}

}  // namespace

DataDir DataDirOfRecordings(const fs::path& place, const PrepareOptions& options, std::vector<DataProblem>& problems) {
  const AudioFiles files(place);
  DataDir dir;
  std::map<std::string, Utterance> utterances;
  for (const std::string& path : files.paths()) {
    try {
      Add(files, path, options, utterances, dir);
    } catch (const InputError& e) {
      problems.push_back({(files.folder() / path).string(), std::string(e.what()) + "; it is left out", false});
    }
  }
  dir.AddUtterances(std::move(utterances));
  if (const std::string remark = files.RemarkOnRest(); !remark.empty()) {
    problems.push_back({place.string(), remark, false});
  }
  if (dir.utterances().empty()) {
    Throw<InputError>("'{}': not one of {} audio files can be read; the first: {}", place.string(),
                      files.paths().size(), problems.at(0).what);
  }
  return dir;
}

}  // namespace antiphon::data
