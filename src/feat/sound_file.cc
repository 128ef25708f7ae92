#include "feat/sound_file.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "base/error.h"

namespace antiphon::feat {
namespace {

// What a header claims beyond these is no recording; resampled, a second of it could be a day.
constexpr int kLowestRateHz = 1000;
constexpr int kHighestRateHz = 10'000'000;

constexpr float kSampleScale = 32768.0f;

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
  const bool empty = is_regular && std::filesystem::file_size(path, code) == 0;
  may_be_foreign_ = is_regular && !empty;
  Check(empty);
}

SoundFile::SoundFile(std::span<const std::byte> bytes, std::string name) : name_(std::move(name)), bytes_{bytes} {
  SF_VIRTUAL_IO reading = ReadingBytes();
  const auto open = [&] {
    bytes_.position = 0;
    return sf_open_virtual(&reading, SFM_READ, &info_, &bytes_);
  };
  Open(open, /*twice=*/true);
  Check(bytes.empty());
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

void SoundFile::Check(bool empty) const {
  if (empty)
    Throw<InputError>("audio file '{}' is empty (0 bytes); remove the utterance or fetch the file again", name_);
  if (!is_known()) return;
  if (info_.samplerate < kLowestRateHz || info_.samplerate > kHighestRateHz || info_.channels <= 0) {
    Throw<InputError>("'{}' claims {} channels at {} Hz; its header is broken", name_, info_.channels,
                      info_.samplerate);
  }
}

std::string SoundFile::WhyNot() const {
  return fmt::format(
      "'{}' cannot be read as audio: {} Expected WAV, FLAC, Ogg (Vorbis, Opus) or another format of libsndfile.", name_,
      why_not_);
}

// Headers of WAV files say how long the data is; libsndfile takes less without a word.
void SoundFile::RefuseCutShort() const {
  std::string log(8192, '\0');
  const int length = sf_command(file_.get(), SFC_GET_LOG_INFO, log.data(), static_cast<int>(log.size()));
  log.resize(static_cast<size_t>(std::clamp<int>(length, 0, static_cast<int>(log.size()))));
  const int type = info_.format & SF_FORMAT_TYPEMASK;
  if (type != SF_FORMAT_WAV && type != SF_FORMAT_WAVEX && type != SF_FORMAT_RF64) return;
  const size_t data = log.find("data : ");
  if (data == std::string::npos) return;
  const size_t should = log.find("(should be ", data);
  if (should == std::string::npos || should > log.find('\n', data)) return;
  const int64_t claimed = std::strtoll(log.c_str() + data + 7, nullptr, 10);
  const int64_t found = std::strtoll(log.c_str() + should + 11, nullptr, 10);
  // Recorders that stream write the largest length, or none, and mean "to the end".
  if (claimed <= found || claimed >= 0x7fffff00) return;
  Throw<InputError>("'{}' is cut short: its header promises {} bytes of samples, {} are there; fetch the file again",
                    name_, claimed, found);
}

void SoundFile::GoTo(int64_t begin) {
  if (sf_seek(file_.get(), begin, SEEK_SET) == begin) return;
  Throw<InputError>("cannot go to {:.3f} s of '{}': {}", static_cast<double>(begin) / info_.samplerate, name_,
                    sf_strerror(file_.get()));
}

// Exact for 16-bit files.
int64_t SoundFile::Read(int64_t count, float* out) {
  const int channels = info_.channels;
  if ((info_.format & SF_FORMAT_SUBMASK) == SF_FORMAT_PCM_16) {
    shorts_.resize(static_cast<size_t>(count * channels));
    const int64_t got = sf_readf_short(file_.get(), shorts_.data(), count);
    for (int64_t i = 0; i < got * channels; ++i) out[i] = shorts_[static_cast<size_t>(i)];
    return got;
  }
  const int64_t got = sf_readf_float(file_.get(), out, count);
  for (int64_t i = 0; i < got * channels; ++i) out[i] *= kSampleScale;
  return got;
}

}  // namespace antiphon::feat
