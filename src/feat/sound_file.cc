#include "feat/sound_file.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <string_view>

#include "base/error.h"
#include "feat/mpeg_frames.h"

namespace antiphon::feat {
namespace {

// What a header claims beyond these is no recording; resampled, a second of it could be a day.
constexpr int kLowestRateHz = 1000;
constexpr int kHighestRateHz = 10'000'000;

constexpr float kSampleScale = 32768.0f;

// Bytes of samples. Recorders that stream write the largest length, perhaps rounded down to their block, and mean "to
// the end".
constexpr int64_t kToTheEnd = 0x7fff0000;
// Samples; libsndfile gives more where it does not know.
constexpr int64_t kMostSamples = int64_t{1} << 50;
constexpr int64_t kCountedAtOnce = 1 << 14;

std::string_view Part(std::string_view wav, size_t begin, size_t count) {
  return wav.substr(std::min(begin, wav.size()), count);
}

uint32_t LittleEndian(std::string_view wav, size_t begin) {
  uint32_t value = 0;
  const std::string_view bytes = Part(wav, begin, 4);
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// Others write a length of 0 first and, when they cannot go back, leave it so: there are samples behind the end that
// the header tells of.
bool HasSamplesBehindNone(std::string_view wav) {
  if (Part(wav, 0, 4) != "RIFF") return false;
  size_t begin = 12;
  while (begin + 8 < wav.size() && Part(wav, begin, 4) != "data") {
    const size_t length = LittleEndian(wav, begin + 4);
    begin += 8 + length + length % 2;
  }
  const size_t samples = begin + 8;
  if (samples >= wav.size() || LittleEndian(wav, begin + 4) != 0) return false;
  const uint32_t riff = LittleEndian(wav, 4);
  return riff == 0 || riff == samples - 8 || riff >= kToTheEnd;
}

// Whether an archive goes on with another recording.
bool HoldsAnother(std::string_view wavs) {
  for (size_t at = 1; (at = wavs.find("RIFF", at)) != std::string_view::npos; ++at) {
    if (Part(wavs, at + 8, 4) == "WAVE") return true;
  }
  return false;
}

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

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
  once_ = !is_regular;
  Check(empty);
  if (is_regular && ClaimsNothing()) {
    mapped_.emplace(path);
    if (HasSamplesBehindNone(TextOf(mapped_->bytes()))) {
      seen_ = {.to_the_end = true};
      seen_.Add(mapped_->bytes());
      OpenBytes();
    }
  }
  if (is_regular && IsMpeg()) {
    mapped_.emplace(path);
    if (!TellLength(mapped_->bytes())) mapped_.reset();
  }
  FindLength();
}

SoundFile::SoundFile(std::span<const std::byte> bytes, std::string name) : name_(std::move(name)), given_(bytes) {
  seen_.Add(bytes);
  OpenBytes();
  Check(bytes.empty());
  if (ClaimsNothing() && HasSamplesBehindNone(TextOf(bytes)) && !HoldsAnother(TextOf(bytes))) {
    seen_.to_the_end = true;
    OpenBytes();
  }
  if (IsMpeg()) TellLength(bytes);
  FindLength();
}

void SoundFile::OpenBytes() {
  SF_VIRTUAL_IO reading = ReadingBytes();
  const auto open = [&] {
    seen_.position = 0;
    return sf_open_virtual(&reading, SFM_READ, &info_, &seen_);
  };
  file_ = nullptr;
  info_ = {};
  Open(open, /*twice=*/true);
}

// In a container too, as WAV.
bool SoundFile::IsMpeg() const {
  if (!is_known()) return false;
  return (info_.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_MPEG ||
         (info_.format & SF_FORMAT_SUBMASK) == SF_FORMAT_MPEG_LAYER_III;
}

bool SoundFile::TellLength(std::span<const std::byte> file) {
  tells_length_ = false;
  if ((info_.format & SF_FORMAT_SUBMASK) != SF_FORMAT_MPEG_LAYER_III) return false;
  const MpegFrames frames = FindMpegFrames(file);
  if (!frames.is_one_sound) {
    Throw<InputError>(
        "'{}' is put together of parts with different sampling rates or channels: write it as one, with ffmpeg for "
        "example, to WAV or FLAC",
        name_);
  }
  tells_length_ = frames.tells_length || frames.count > 0;
  if (frames.tells_length || frames.count == 0) return false;
  told_ = LengthOfData();
  length_frame_ = MpegLengthFrame(frames.runs.front(), frames.count);
  seen_ = {};
  seen_.Add(std::as_bytes(std::span(length_frame_)));
  for (const auto run : frames.runs) seen_.Add(run);
  OpenBytes();
  return true;
}

bool SoundFile::ClaimsNothing() const { return is_known() && info_.frames == 0 && LengthOfData().claimed == 0; }

// What only the end will say stays unknown.
void SoundFile::FindLength() {
  const bool to_the_end = once_ && LengthOfData().claimed >= kToTheEnd;
  if (is_known() && tells_length_ && !to_the_end && info_.frames <= kMostSamples) num_samples_ = info_.frames;
}

int64_t SoundFile::CountSamples() const {
  if (num_samples_) return *num_samples_;
  if (once_) {
    Throw<InputError>(
        "how long '{}' is only its end says, and it can be read but once, as a pipe; write it to a file first", name_);
  }
  const auto again = given_.empty() ? std::make_unique<SoundFile>(std::filesystem::path(name_))
                                    : std::make_unique<SoundFile>(given_, name_);
  std::vector<float> block(static_cast<size_t>(kCountedAtOnce * info_.channels));
  while (again->Read(kCountedAtOnce, block.data()) > 0) {
  }
  return again->read_;
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

void SoundFile::Bytes::Add(std::span<const std::byte> piece) {
  pieces.push_back(piece);
  ends.push_back(size() + std::ssize(piece));
}

void SoundFile::Bytes::Copy(sf_count_t count, char* to) const {
  auto i = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), position) - ends.begin());
  for (sf_count_t at = position; count > 0 && i < pieces.size(); ++i) {
    const sf_count_t here = std::min(count, ends[i] - at);
    std::memcpy(to, pieces[i].data() + (std::ssize(pieces[i]) - (ends[i] - at)), static_cast<size_t>(here));
    to += here;
    at += here;
    count -= here;
  }
}

SF_VIRTUAL_IO SoundFile::ReadingBytes() {
  static const auto self = [](void* pointer) -> Bytes& { return *static_cast<Bytes*>(pointer); };
  return {.get_filelen = [](void* pointer) { return self(pointer).size(); },
          .seek =
              [](sf_count_t offset, int whence, void* pointer) {
                Bytes& file = self(pointer);
                const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? file.position : file.size();
                return file.position = std::clamp<sf_count_t>(base + offset, 0, file.size());
              },
          .read =
              [](void* to, sf_count_t count, void* pointer) {
                Bytes& file = self(pointer);
                count = std::min(count, file.size() - file.position);
                if (count <= 0) return sf_count_t{0};
                file.Copy(count, static_cast<char*>(to));
                // libsndfile reads to the end where RIFF's length, of bytes 4 to 7, is 8 and that of the samples 0.
                for (sf_count_t at = 4; file.to_the_end && at < 8; ++at) {
                  const sf_count_t i = at - file.position;
                  if (i >= 0 && i < count) static_cast<char*>(to)[i] = at == 4 ? 8 : 0;
                }
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

SoundFile::DataLength SoundFile::LengthOfData() const {
  const int type = info_.format & SF_FORMAT_TYPEMASK;
  if (!is_known() || (type != SF_FORMAT_WAV && type != SF_FORMAT_WAVEX && type != SF_FORMAT_RF64)) return {};
  std::string log(8192, '\0');
  const int length = sf_command(file_.get(), SFC_GET_LOG_INFO, log.data(), static_cast<int>(log.size()));
  log.resize(static_cast<size_t>(std::clamp<int>(length, 0, static_cast<int>(log.size()))));
  const size_t data = log.find("data : ");
  if (data == std::string::npos) return {};
  DataLength bytes{.claimed = std::strtoll(log.c_str() + data + 7, nullptr, 10), .found = -1};
  const size_t should = log.find("(should be ", data);
  if (should < log.find('\n', data)) bytes.found = std::strtoll(log.c_str() + should + 11, nullptr, 10);
  return bytes;
}

// Headers of WAV files say how long the data is; libsndfile takes less without a word.
void SoundFile::RefuseCutShort() const {
  const DataLength bytes = told_ ? *told_ : LengthOfData();
  if (bytes.found < 0 || bytes.claimed <= bytes.found || bytes.claimed >= kToTheEnd) return;
  Throw<InputError>("'{}' is cut short: its header promises {} bytes of samples, {} are there; fetch the file again",
                    name_, bytes.claimed, bytes.found);
}

void SoundFile::GoTo(int64_t begin) {
  if (sf_seek(file_.get(), begin, SEEK_SET) != begin) {
    Throw<InputError>("cannot go to {:.3f} s of '{}': {}", static_cast<double>(begin) / info_.samplerate, name_,
                      sf_strerror(file_.get()));
  }
  read_ = begin;
}

// Exact for 16-bit files.
int64_t SoundFile::Read(int64_t count, float* out) {
  const int channels = info_.channels;
  int64_t got = 0;
  if ((info_.format & SF_FORMAT_SUBMASK) == SF_FORMAT_PCM_16) {
    shorts_.resize(static_cast<size_t>(count * channels));
    got = sf_readf_short(file_.get(), shorts_.data(), count);
    for (int64_t i = 0; i < got * channels; ++i) out[i] = shorts_[static_cast<size_t>(i)];
  } else {
    got = sf_readf_float(file_.get(), out, count);
    for (int64_t i = 0; i < got * channels; ++i) out[i] *= kSampleScale;
  }
  read_ += got;
  if (got == 0 && count > 0 && !num_samples_) num_samples_ = read_;
  return got;
}

}  // namespace antiphon::feat
