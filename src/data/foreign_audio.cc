#include "data/foreign_audio.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "base/child_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

// A folder that only this user may enter.
fs::path MakeTemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "antiphon.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) ThrowIo("make a temporary folder like", name, errno);
  return name;
}

std::string FirstLine(const fs::path& file) {
  std::error_code none;
  const std::string text = fs::exists(file, none) ? ReadFile(file) : "";
  return text.empty() ? "it does not say why" : text.substr(0, text.find('\n'));
}

}  // namespace

ReadableAudio::ReadableAudio(const fs::path& file) : path_(file) {
  std::error_code none;
  try {
    info_ = feat::ProbeAudio(file);
  } catch (const InputError& e) {
    if (!fs::is_regular_file(file, none) || fs::file_size(file, none) == 0) throw;
    Convert(file, e.what());
  }
}

ReadableAudio::~ReadableAudio() {
  std::error_code none;
  if (!folder_.empty()) fs::remove_all(folder_, none);
}

void ReadableAudio::Convert(const fs::path& file, const std::string& why) {
  folder_ = MakeTemporaryFolder();
  try {
    path_ = folder_ / (file.stem().string() + ".wav");
    const fs::path messages = folder_ / "messages.txt";
    const auto status = RunProgram({"ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "error", "-protocol_whitelist",
                                    "file", "-i", "file:" + file.string(), "-map", "0:a:0", "-vn", "-c:a", "pcm_s16le",
                                    "-rf64", "auto", "-f", "wav", "file:" + path_.string()},
                                   messages);
    if (!status) Throw<InputError>("{}; ffmpeg, which may be able to read it, is not installed", why);
    if (*status != 0) {
      Throw<InputError>("'{}' is no audio that libsndfile or ffmpeg can read; ffmpeg says: {}", file.string(),
                        FirstLine(messages));
    }
    info_ = feat::ProbeAudio(path_);
  } catch (...) {
    std::error_code none;
    fs::remove_all(folder_, none);
    throw;
  }
}

}  // namespace antiphon::data
