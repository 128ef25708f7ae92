// Where samples come from, whoever decodes them: libsndfile (feat/sound_file.h) or ffmpeg (feat/foreign_sound.h).
//
// Units: samples on the scale of 16-bit integers, counted per channel. Threads: one per object. Errors: InputError
// naming the file and why it cannot be read; Cancelled if somebody asks to stop while ffmpeg is waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace antiphon::feat {

class SoundSource {
 public:
  virtual ~SoundSource() = default;

  /// Of the file, for errors.
  virtual const std::string& name() const = 0;
  virtual int sample_rate_hz() const = 0;
  virtual int num_channels() const = 0;
  /// "WAV (Microsoft), Signed 16 bit PCM".
  virtual std::string Format() const = 0;
  /// As the header says; none if only the end of the sound will say.
  virtual std::optional<int64_t> num_samples() const = 0;
  /// The same, if need be by reading all of it.
  virtual int64_t CountSamples() const = 0;
  /// InputError if the header promises more than the file has.
  virtual void RefuseCutShort() const {}

  /// Before anything is read: what comes before sample `begin` is left out.
  virtual void GoTo(int64_t begin) = 0;
  /// Interleaved, of up to `count` samples per channel; 0 at the end.
  virtual int64_t Read(int64_t count, float* out) = 0;
};

/// Opens a file: the one place that decides who reads it. What libsndfile does not know is read by ffmpeg, if that is
/// installed.
std::unique_ptr<SoundSource> OpenSound(const std::filesystem::path& path);
/// The bytes of a file called `name`, of a format of libsndfile; they must outlive the source.
std::unique_ptr<SoundSource> OpenSound(std::span<const std::byte> bytes, const std::string& name);

}  // namespace antiphon::feat
