// Audio in a format that libsndfile does not read (m4a, the sound of a video …), by ffmpeg where that is installed.
//
// ffmpeg is started with fixed arguments and without a shell, and may open nothing but the file. Its result lies in a
// temporary folder while the object lives.
//
// Threads: one per object. Errors: InputError saying what the file is, and whether ffmpeg is missing or found no sound
// in it; IoError.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/child_process.h"
#include "base/scratch_folder.h"
#include "feat/audio.h"

namespace antiphon::data {

class ReadableAudio {
 public:
  /// `on_cancel`: what becomes of ffmpeg when somebody asks to stop.
  explicit ReadableAudio(const std::filesystem::path& file, OnCancel on_cancel = OnCancel::kEnd);
  ReadableAudio(const ReadableAudio&) = delete;
  ReadableAudio& operator=(const ReadableAudio&) = delete;

  /// The file itself, or what ffmpeg made of it, of the same name but for the ending.
  const std::filesystem::path& path() const { return path_; }
  const feat::AudioInfo& info() const { return info_; }

 private:
  void Convert(const std::filesystem::path& file, OnCancel on_cancel, const std::string& why);

  std::filesystem::path path_;
  std::optional<ScratchFolder> folder_;  // of what was converted
  feat::AudioInfo info_;
};

}  // namespace antiphon::data
