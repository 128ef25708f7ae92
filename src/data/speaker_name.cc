#include "data/speaker_name.h"

#include "data/audio_files.h"

namespace antiphon::data {

std::string SpeakerOf(const std::filesystem::path& audio, const std::string& column, const std::string& utterance,
                      const std::string& from, const std::string& ending) {
  if (from == "folder" && audio.has_parent_path()) return CleanId(audio.parent_path().filename().string()) + ending;
  if (from == "prefix") {
    const std::string stem = audio.stem().string();
    return CleanId(stem.substr(0, stem.find_first_of("-_"))) + ending;
  }
  if (from == "column" && !column.empty()) return CleanId(column);
  return utterance;
}

}  // namespace antiphon::data
