#include "data/foreign_audio.h"

#include <string>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/scratch_file.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

std::string FirstLine(const fs::path& file) {
  const std::string text = ReadFile(file);
  return text.empty() ? "it does not say why" : text.substr(0, text.find('\n'));
}

}  // namespace

ReadableAudio::ReadableAudio(const fs::path& file, OnCancel on_cancel) : path_(file) {
  std::error_code none;
  try {
    info_ = feat::ProbeAudio(file);
  } catch (const InputError& e) {
    if (!fs::is_regular_file(file, none) || fs::file_size(file, none) == 0) throw;
    Convert(file, on_cancel, e.what());
  }
}

void ReadableAudio::Convert(const fs::path& file, OnCancel on_cancel, const std::string& why) {
  converted_ = NewScratchFile();
  path_ = PathOf(converted_);
  const FileDescriptor said_to = NewScratchFile();
  const fs::path messages = PathOf(said_to);
  // -y: standard output exists already. Under its name, unlike as a pipe, ffmpeg may complete the header at the end.
  const auto status = RunProgram(
      {"ffmpeg", "-nostdin", "-loglevel", "error", "-y", "-protocol_whitelist", "file", "-i", "file:" + file.string(),
       "-map", "0:a:0", "-vn", "-c:a", "pcm_s16le", "-rf64", "auto", "-f", "wav", "file:/dev/stdout"},
      messages, on_cancel, converted_.get());
  if (!status) Throw<InputError>("{}; ffmpeg, which may be able to read it, is not installed", why);
  if (*status != 0) {
    const std::string said = FirstLine(messages);
    if (said.find("matches no streams") != std::string::npos) {  // of -map 0:a:0
      Throw<InputError>("'{}' has no sound: pictures alone, or nothing", file.string());
    }
    Throw<InputError>("'{}' is no audio that libsndfile or ffmpeg can read; ffmpeg says: {}", file.string(), said);
  }
  info_ = feat::ProbeAudio(path_);
}

}  // namespace antiphon::data
