#include "pipeline/decode_turns.h"

#include <filesystem>
#include <utility>

#include "base/error.h"

namespace antiphon::pipeline {
namespace {

data::DataDir DirectoryWithAudio(const std::string& data, const data::DataDirOptions& options) {
  if (!std::filesystem::exists(std::filesystem::path(data) / "wav.scp")) {
    Throw<UsageError>(
        "'{}' has no audio (wav.scp), in which speech could be told from other sound: decode with --vad none", data);
  }
  return data::DataDir::Load(data, options);
}

}  // namespace

DecodeTurns::DecodeTurns(std::shared_ptr<const VoiceActivity> activity, const std::string& data,
                         const data::DataDirOptions& options)
    : activity_(std::move(activity)), dir_(DirectoryWithAudio(data, options)), audio_(dir_) {}

const HeardSpeech& DecodeTurns::Of(const std::string& utt_id) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = heard_.find(utt_id); known != heard_.end()) return known->second;
  }
  HeardSpeech heard = Hear(utt_id);
  const std::lock_guard lock(mutex_);
  return heard_.emplace(utt_id, std::move(heard)).first->second;
}

HeardSpeech DecodeTurns::Hear(const std::string& utt_id) const {
  data::AudioSource::Stream audio = audio_.Open(dir_.utterances()[dir_.Find(utt_id)]);
  return activity_->Hear(
      [&](const auto& sink) {
        for (std::vector<float> piece; audio.reader.Read(piece);) sink(piece);
      },
      audio.reader.sample_rate_hz());
}

}  // namespace antiphon::pipeline
