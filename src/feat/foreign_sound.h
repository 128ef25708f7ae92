// Sound of a format that libsndfile does not know (m4a, the sound of a video …), by ffmpeg where that is installed.
//
// ffmpeg is started with fixed arguments and without a shell, and may open nothing but files. What it decodes comes
// through a pipe, as fast as it is read: neither memory nor disk grows with the length. It cannot go to a place in the
// sound, but decodes all that comes before; who reads many parts of one file takes an UnpackedSound. How long the sound
// is only its end says: counting it once decodes all of it, and is remembered as long as the file does not change.
//
// Threads: one per object; free functions safe together. Errors: InputError saying what the file is, and whether ffmpeg
// is missing or found no sound in it; IoError; Cancelled if somebody asks to stop while it is waited for
// (PatientReading for readers that go on).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/running_program.h"
#include "feat/sound_source.h"

namespace antiphon::feat {

/// Whether ffmpeg is installed.
bool ForeignSoundIsRead();
/// Whether this file is left to ffmpeg.
bool IsForeignSound(const std::filesystem::path& file);

/// While it lives, the ForeignSounds of the calling thread are read to their end though somebody asks to stop, and the
/// terminal's signals do not reach their ffmpeg: for whoever stops at a place of its own choice, to which it needs
/// data. Cancelled only where ffmpeg fails after somebody asked to stop, as it may have heard of that, too.
class PatientReading {
 public:
  PatientReading();
  ~PatientReading();
  PatientReading(const PatientReading&) = delete;
  PatientReading& operator=(const PatientReading&) = delete;
};

class ForeignSound : public SoundSource {
 public:
  /// `why_foreign`: libsndfile's reason not to read the file, for the error if nobody does.
  ForeignSound(const std::filesystem::path& file, std::string why_foreign);

  const std::string& name() const override { return name_; }
  int sample_rate_hz() const override { return sample_rate_hz_; }
  int num_channels() const override { return num_channels_; }
  std::string Format() const override { return "read by ffmpeg"; }
  std::optional<int64_t> num_samples() const override { return num_samples_; }
  int64_t CountSamples() const override;
  void GoTo(int64_t begin) override;
  int64_t Read(int64_t count, float* out) override;

 private:
  // Up to so many bytes; fewer at the end alone.
  size_t ReadBytes(std::span<std::byte> bytes);
  void ReadHeader();
  void RequireGoodEnd();

  std::string name_;
  std::string why_foreign_;
  FileDescriptor messages_;
  std::unique_ptr<RunningProgram> ffmpeg_;  // null at the end
  int sample_rate_hz_ = 0;
  int num_channels_ = 0;
  int64_t read_ = 0;  // samples per channel
  std::optional<int64_t> num_samples_;
  std::vector<std::byte> bytes_;
};

/// All of a foreign sound in a temporary file without a name, which can be read from any place. It takes two bytes for
/// each sample of each channel, and goes with the object, and with the process however that ends.
class UnpackedSound {
 public:
  /// IoError if the folder for temporary files has less room, saying how much it takes.
  explicit UnpackedSound(const std::filesystem::path& file);
  /// Which this process alone can open, while the object lives.
  std::filesystem::path path() const;

 private:
  FileDescriptor file_;
};

}  // namespace antiphon::feat
