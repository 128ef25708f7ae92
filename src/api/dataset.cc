#include "antiphon/dataset.h"

#include <fmt/format.h>

#include "api/audio_input.h"
#include "api/internal.h"
#include "base/error.h"
#include "data/audio_source.h"
#include "data/data_dir.h"

namespace antiphon {

struct ANTIPHON_INTERNAL Dataset::Impl {
  explicit Impl(data::DataDir its_dir) : dir(std::move(its_dir)), audio(dir) {
    for (const data::Utterance& utterance : dir.utterances()) {
      const data::Recording& recording = dir.recordings()[utterance.recording];
      utterances.push_back({.utt_id = utterance.utt_id,
                            .speaker = utterance.speaker,
                            .text = fmt::format("{}", fmt::join(utterance.words, " ")),
                            .has_text = utterance.has_transcript,
                            .recording = recording.id,
                            .audio = recording.reference,
                            .start_s = utterance.start_s,
                            .end_s = utterance.end_s,
                            .channel = utterance.channel});
    }
  }

  data::DataDir dir;
  data::AudioSource audio;
  std::vector<DatasetUtterance> utterances;
};

Dataset::Dataset(const std::string& folder, const std::string& audio_root)
    : impl_(std::make_shared<const Impl>(
          data::DataDir::Load(folder, {.audio_root = audio_root, .allow_commands = false}))) {}

const std::vector<DatasetUtterance>& Dataset::utterances() const { return impl_->utterances; }

std::vector<std::string> Dataset::speakers() const { return impl_->dir.speakers(); }

DatasetAudio Dataset::Samples(size_t utterance) const {
  if (utterance >= impl_->utterances.size()) {
    Throw<UsageError>("utterance {} of {}", utterance, impl_->utterances.size());
  }
  feat::Waveform wave = impl_->audio.Read(impl_->dir.utterances()[utterance]);
  for (float& sample : wave.samples) sample /= kFullScale;
  return {std::move(wave.samples), wave.sample_rate_hz};
}

}  // namespace antiphon
