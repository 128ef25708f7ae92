#include "api/audio_input.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/config.h"
#include "base/error.h"
#include "data/audio_files.h"
#include "data/channels.h"
#include "feat/audio.h"

namespace antiphon {
namespace {

constexpr size_t kPieceSamples = 1 << 16;

// As antiphon decode names the recording, or its channel.
std::string UtteranceName(const std::string& path, int channel, int num_channels) {
  std::string name = data::CleanId(std::filesystem::path(path).stem().string());
  if (channel >= 0 && num_channels > 1) name += "-" + data::ChannelName(channel);
  return name;
}

void RequireChannel(const feat::AudioInfo& info, int channel) {
  if (channel >= -1 && channel < info.num_channels) return;
  Throw<UsageError>("channel {} of audio with {} channels: they count from 0, and -1 is the mean of all", channel,
                    info.num_channels);
}

}  // namespace

void RequireRate(int sample_rate_hz) {
  constexpr int kLowestHz = 1000, kHighestHz = 384000;
  if (sample_rate_hz >= kLowestHz && sample_rate_hz <= kHighestHz) return;
  Throw<UsageError>("the sampling rate is {} Hz, expected {} … {}", sample_rate_hz, kLowestHz, kHighestHz);
}

AudioInput InputOf(std::span<const float> samples, int sample_rate_hz, int channel) {
  RequireRate(sample_rate_hz);
  if (channel < -1 || channel > 0) Throw<UsageError>("channel {} of samples that have one channel", channel);
  const auto pieces = [samples](const auto& sink) {
    std::vector<float> piece;
    for (size_t begin = 0; begin < samples.size(); begin += kPieceSamples) {
      piece.clear();
      for (const float sample : samples.subspan(begin, std::min(kPieceSamples, samples.size() - begin)))
        piece.push_back(sample * kFullScale);
      sink(piece);
    }
  };
  return {pieces, sample_rate_hz, 0};
}

AudioInput InputOf(const std::string& path, int channel) {
  if (std::error_code none; std::filesystem::is_fifo(path, none)) {
    Throw<InputError>("'{}' is a pipe, which cannot be read twice: give its contents, or use a stream", path);
  }
  const feat::AudioInfo info = feat::ProbeAudioFormat(path);
  RequireChannel(info, channel);
  const auto pieces = [path, channel](const auto& sink) {
    feat::AudioReader reader(path, {.channel = channel});
    for (std::vector<float> piece; reader.Read(piece);) sink(piece);
  };
  return {pieces, info.sample_rate_hz, feat::UtteranceSeed(UtteranceName(path, channel, info.num_channels))};
}

AudioInput InputOf(std::span<const std::byte> file, const std::string& name, int channel) {
  const feat::AudioInfo info = feat::ProbeAudio(file, name);
  RequireChannel(info, channel);
  const auto pieces = [file, name, channel](const auto& sink) {
    feat::AudioReader reader(file, name, {.channel = channel});
    for (std::vector<float> piece; reader.Read(piece);) sink(piece);
  };
  return {pieces, info.sample_rate_hz, feat::UtteranceSeed(UtteranceName(name, channel, info.num_channels))};
}

feat::FrontEnd FrontEndOf(const AcousticModel& model, const std::string& file) {
  const std::string toml = model.features();
  if (toml.empty()) {
    Throw<InputError>("'{}' does not say what its features are: train it with --front-end", file);
  }
  return feat::FrontEnd(ReadOptions<feat::FrontEndOptions>(Config::Parse(toml, file + " (features)")));
}

pipeline::RecordingOptions NormalisationOf(const AcousticModel& model, bool normalize_variance, uint64_t utterance) {
  const std::string normalisation = model.normalisation();
  return {.normalize_mean = normalisation != "none",
          .normalize_variance = normalize_variance || normalisation == "mean-variance",
          .utterance = utterance};
}

}  // namespace antiphon
