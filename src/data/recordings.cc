#include "data/recordings.h"

#include "base/error.h"
#include "data/audio_files.h"
#include "data/channels.h"
#include "data/speaker_name.h"
#include "feat/audio.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

void Add(const AudioFiles& files, const std::string& path, const PrepareOptions& options, DataDir& dir) {
  const fs::path file = fs::absolute(files.folder() / path).lexically_normal();
  const feat::AudioInfo info = feat::ProbeAudio(file);
  const std::string name = CleanId(files.ShortName(path));
  const int channels = options.channels == "each" ? info.num_channels : 1;
  dir.AddRecording({name, file.string(), 0});
  for (int channel = 0; channel < channels; ++channel) {
    const std::string ending = channels > 1 ? "-" + ChannelName(channel) : "";
    Utterance u;
    u.utt_id = name + ending;
    u.recording = dir.recordings().size() - 1;
    u.duration_s = info.duration_s();
    if (channels > 1) u.channel = channel;
    const std::string speaker = SpeakerOf(path, "", name, options.speaker_from);
    u.speaker = speaker + ending;
    // Sorted by utterance, each speaker's stand together.
    if (speaker != name) u.utt_id = u.speaker + "-" + u.utt_id;
    dir.AddUtterance(std::move(u));
  }
}

}  // namespace

DataDir DataDirOfRecordings(const fs::path& place, const PrepareOptions& options, std::vector<DataProblem>& problems) {
  const AudioFiles files(place);
  DataDir dir;
  for (const std::string& path : files.paths()) {
    try {
      Add(files, path, options, dir);
    } catch (const InputError& e) {
      problems.push_back({(files.folder() / path).string(), std::string(e.what()) + "; it is left out", false});
    }
  }
  if (const std::string remark = files.RemarkOnFormats(); !remark.empty()) {
    problems.push_back({place.string(), remark, false});
  }
  if (dir.utterances().empty()) {
    Throw<InputError>("'{}': not one of {} audio files can be read; the first: {}", place.string(),
                      files.paths().size(), problems.at(0).what);
  }
  return dir;
}

}  // namespace antiphon::data
