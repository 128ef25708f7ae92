// Audio as a call gives it, samples or a file, and what a model takes of it.
//
// Units: samples outside in −1 … 1, inside on the 16-bit scale. Threads: pure functions; an AudioInput refers to what
// it was made of, which must outlive it. Errors: UsageError for rates and channels that cannot be; those of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/feature_parts.h"
#include "feat/front_end.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/recording_features.h"

namespace antiphon {

/// Full scale of the samples inside.
inline constexpr float kFullScale = 32768.0F;

/// UsageError for rates that no speech has.
void RequireRate(int sample_rate_hz);

struct AudioInput {
  data::AudioPieces pieces;
  int sample_rate_hz = 0;
  uint64_t utterance = 0;  // selects the dither: of a file that of the utterance that antiphon decode makes of it
};

AudioInput InputOf(std::span<const float> samples, int sample_rate_hz, int channel);
AudioInput InputOf(const std::string& path, int channel);
/// A file's bytes; `name` stands for its path.
AudioInput InputOf(std::span<const std::byte> file, const std::string& name, int channel);

/// InputError if the model does not say what its features are.
feat::FrontEnd FrontEndOf(const AcousticModel& model, const std::string& file);

/// As the model's features were normalised, by the recording's own statistics.
pipeline::RecordingOptions NormalisationOf(const AcousticModel& model, bool normalize_variance, uint64_t utterance);

}  // namespace antiphon
