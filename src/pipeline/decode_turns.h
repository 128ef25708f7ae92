// The turns of speech in the utterances of a data directory, heard in their audio.
//
// Memory: four bytes for each frame that was heard. Threads: const methods may run together; each utterance is heard
// once. Errors: UsageError for a directory without
// audio; those of the audio, naming the utterance.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/audio_source.h"
#include "data/data_dir.h"
#include "pipeline/voice_activity.h"

namespace antiphon::pipeline {

class DecodeTurns {
 public:
  DecodeTurns(std::shared_ptr<const VoiceActivity> activity, const std::string& data,
              const data::DataDirOptions& options);

  const HeardSpeech& Of(const std::string& utt_id) const;
  double least_contrast() const { return activity_->least_contrast(); }

 private:
  HeardSpeech Hear(const std::string& utt_id) const;

  std::shared_ptr<const VoiceActivity> activity_;
  data::DataDir dir_;
  data::AudioSource audio_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, HeardSpeech> heard_;  // guarded by mutex_
};

}  // namespace antiphon::pipeline
