#include "feat/sound_file.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "base/error.h"

namespace antiphon::feat {
namespace {

// What a header claims beyond these is no recording; resampled, a second of it could be a day.
constexpr int kLowestRateHz = 1000;
constexpr int kHighestRateHz = 10'000'000;

}  // namespace

SoundFile::SoundFile(const std::filesystem::path& path) : name_(path.string()) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status)) {
    Throw<InputError>("audio file '{}' does not exist; check the path (relative ones start at the working folder)",
                      name_);
  }
  if (std::filesystem::is_directory(status)) {
    Throw<InputError>("'{}' is a folder where an audio file was expected", name_);
  }
  const bool is_regular = std::filesystem::is_regular_file(status);
  Open([&] { return sf_open(path.c_str(), SFM_READ, &info_); }, is_regular);
  CheckOpen(is_regular && std::filesystem::file_size(path, code) == 0);
}

SoundFile::SoundFile(std::span<const std::byte> bytes, std::string name) : name_(std::move(name)), bytes_{bytes} {
  SF_VIRTUAL_IO reading = ReadingBytes();
  const auto open = [&] {
    bytes_.position = 0;
    return sf_open_virtual(&reading, SFM_READ, &info_, &bytes_);
  };
  Open(open, /*twice=*/true);
  CheckOpen(bytes.empty());
}

std::string SoundFile::Format() const {
  std::string text;
  for (const int part : {info_.format & SF_FORMAT_TYPEMASK, info_.format & SF_FORMAT_SUBMASK}) {
    SF_FORMAT_INFO format{.format = part, .name = nullptr, .extension = nullptr};
    if (sf_command(nullptr, SFC_GET_FORMAT_INFO, &format, sizeof format) != 0 || format.name == nullptr) continue;
    text += (text.empty() ? "" : ", ") + std::string(format.name);
  }
  return text;
}

SF_VIRTUAL_IO SoundFile::ReadingBytes() {
  static const auto self = [](void* pointer) -> Bytes& { return *static_cast<Bytes*>(pointer); };
  static const auto size = [](const Bytes& file) { return static_cast<sf_count_t>(file.bytes.size()); };
  return {.get_filelen = [](void* pointer) { return size(self(pointer)); },
          .seek =
              [](sf_count_t offset, int whence, void* pointer) {
                Bytes& file = self(pointer);
                const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? file.position : size(file);
                return file.position = std::clamp<sf_count_t>(base + offset, 0, size(file));
              },
          .read =
              [](void* to, sf_count_t count, void* pointer) {
                Bytes& file = self(pointer);
                count = std::min(count, size(file) - file.position);
                if (count <= 0) return sf_count_t{0};
                std::memcpy(to, file.bytes.data() + file.position, static_cast<size_t>(count));
                file.position += count;
                return count;
              },
          .write = [](const void*, sf_count_t, void*) { return sf_count_t{0}; },
          .tell = [](void* pointer) { return self(pointer).position; }};
}

// libsndfile keeps why a file could not be opened in one place for all threads. So what cannot be opened beside others
// is opened once more alone, to read the reason.
void SoundFile::Open(const std::function<SNDFILE*()>& open, bool twice) {
  static std::shared_mutex opening;
  {
    const std::shared_lock beside(opening);
    file_.reset(open());
  }
  if (file_ || !twice) return;
  const std::lock_guard alone(opening);
  info_ = {};
  file_.reset(open());
  if (!file_) why_not_ = sf_strerror(nullptr);
}

void SoundFile::CheckOpen(bool empty) const {
  if (empty)
    Throw<InputError>("audio file '{}' is empty (0 bytes); remove the utterance or fetch the file again", name_);
  if (!file_) {
    Throw<InputError>(
        "'{}' cannot be read as audio: {} Expected WAV, FLAC, Ogg (Vorbis, Opus) or another format of libsndfile.",
        name_, why_not_);
  }
  if (info_.samplerate < kLowestRateHz || info_.samplerate > kHighestRateHz || info_.channels <= 0) {
    Throw<InputError>("'{}' claims {} channels at {} Hz; its header is broken", name_, info_.channels,
                      info_.samplerate);
  }
}

}  // namespace antiphon::feat
