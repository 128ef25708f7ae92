// Audio in a format that libsndfile does not read (m4a, the sound of a video …), by ffmpeg where that is installed.
//
// ffmpeg is started with fixed arguments and without a shell, and may open nothing but the file. Its result lies in a
// temporary file without a name, which goes with the object, and with the process however that ends.
//
// Threads: one per object. Errors: InputError saying what the file is, and whether ffmpeg is missing or found no sound
// in it; IoError.
#pragma once

#include <filesystem>
#include <string>

#include "base/child_process.h"
#include "base/file_descriptor.h"
#include "feat/audio.h"

namespace antiphon::data {

class ReadableAudio {
 public:
  /// `on_cancel`: what becomes of ffmpeg when somebody asks to stop.
  explicit ReadableAudio(const std::filesystem::path& file, OnCancel on_cancel = OnCancel::kEnd);
  ReadableAudio(const ReadableAudio&) = delete;
  ReadableAudio& operator=(const ReadableAudio&) = delete;

  /// The file itself, or what ffmpeg made of it, which this process alone can open, while the object lives.
  const std::filesystem::path& path() const { return path_; }
  const feat::AudioInfo& info() const { return info_; }

 private:
  void Convert(const std::filesystem::path& file, OnCancel on_cancel, const std::string& why);

  std::filesystem::path path_;
  FileDescriptor converted_;
  feat::AudioInfo info_;
};

}  // namespace antiphon::data
