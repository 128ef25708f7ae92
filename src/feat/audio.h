// Audio files in and out, and sampling-rate conversion.
//
// Units: samples are floats on the scale of 16-bit integers (full scale ±32768), the scale of Kaldi's features; times
// are seconds from the start of the file. Formats: whatever libsndfile reads: WAV, FLAC, Ogg Vorbis and Opus, AIFF, AU,
// NIST Sphere, MP3 where it is built in …; of files also what ffmpeg reads, where that is installed
// (feat/foreign_sound.h). Opus holds no rate of its own; libsndfile gives it at the rate that its header names.
// Threads: free functions, safe together. Errors: InputError naming the file, what was found and what to do: missing,
// not audio, empty, cut short, samples that are not finite, a channel or a time range that the file does not have;
// UsageError for impossible options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace antiphon::feat {

/// One channel of sound.
struct Waveform {
  std::vector<float> samples;  // int16 scale
  int sample_rate_hz = 0;
  int channels_mixed = 1;  // the samples are the mean of so many

  double duration_s() const { return sample_rate_hz > 0 ? static_cast<double>(samples.size()) / sample_rate_hz : 0.0; }
};

/// Of sound whose header does not say how much there is.
inline constexpr int64_t kUnknownLength = -1;

/// What a file's header says. num_samples is per channel.
struct AudioInfo {
  int sample_rate_hz = 0;
  int num_channels = 0;
  int64_t num_samples = 0;
  std::string format;  // "WAV (Microsoft), Signed 16 bit PCM"

  double duration_s() const { return sample_rate_hz > 0 ? static_cast<double>(num_samples) / sample_rate_hz : 0.0; }
};

/// Which part of a file to read.
struct AudioSelection {
  int channel = -1;      // from 0; -1: the only one, or the mean of all
  double start_s = 0.0;  // of a segment
  double end_s = -1.0;   // ≤ 0: to the end; up to `end_slack_s` past the end of the file is cut back to it
  double end_slack_s = 0.5;
};

/// Reads a file, or a part of it without decoding what comes before where the format can seek; ffmpeg decodes that.
Waveform ReadAudio(const std::filesystem::path& path, const AudioSelection& selection = {});
inline Waveform ReadAudio(const std::filesystem::path& path, int channel) {
  return ReadAudio(path, AudioSelection{.channel = channel});
}
/// The same from a whole file's bytes in memory (an archive entry); `name` stands for the file in errors.
Waveform ReadAudio(std::span<const std::byte> bytes, const std::string& name, const AudioSelection& selection = {});

/// The same in pieces: what is held does not grow with the length.
///   AudioReader reader(path);
///   for (std::vector<float> piece; reader.Read(piece);) …
/// One thread. Errors as ReadAudio's, as soon as they are met.
class AudioReader {
 public:
  explicit AudioReader(const std::filesystem::path& path, const AudioSelection& selection = {});
  /// `bytes` must outlive the reader.
  AudioReader(std::span<const std::byte> bytes, const std::string& name, const AudioSelection& selection = {});
  ~AudioReader();
  AudioReader(AudioReader&&) noexcept;

  int sample_rate_hz() const;
  /// The samples are the mean of so many channels.
  int channels_mixed() const;
  /// As the header says; of what ffmpeg reads, once all of it is read, here if need be.
  double duration_s() const;
  /// The next samples, some thousands; false at the end.
  bool Read(std::vector<float>& samples);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The header alone; what ffmpeg reads has none that is sure of the length, and all of it is read, once.
AudioInfo ProbeAudio(const std::filesystem::path& path);
AudioInfo ProbeAudio(std::span<const std::byte> bytes, const std::string& name);
/// The same without reading for the length: num_samples may be kUnknownLength.
AudioInfo ProbeAudioFormat(const std::filesystem::path& path);

/// Converts to another rate by soxr's high-quality sinc filter (linear phase, no delay); ⌈n·rate/old⌉ samples, more or
/// less one. The same rate gives the same samples back. Deterministic.
Waveform Resample(Waveform wave, int sample_rate_hz);
/// The samples of Resample, bit for bit, of audio that comes in pieces. One thread.
class Resampler {
 public:
  Resampler(int from_hz, int to_hz);
  ~Resampler();
  Resampler(Resampler&&) noexcept;

  /// More samples; appends those that are ready to `out`.
  void Accept(std::span<const float> samples, std::vector<float>& out);
  /// No more samples: appends the rest.
  void Finish(std::vector<float>& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Changes the number of samples by 1/speed without touching the rate: tempo and pitch go up together by `speed` (> 0).
std::vector<float> ResampleBySpeed(std::span<const float> samples, double speed);

/// Writes 16-bit mono WAV, atomically; values beyond full scale are clipped.
void WriteWav(const std::filesystem::path& path, const Waveform& wave);

}  // namespace antiphon::feat
