#include "feat/foreign_sound.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/cancel.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/scratch_file.h"
#include "feat/sound_file.h"

namespace antiphon::feat {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "ffmpeg";
constexpr double kBetweenAsksS = 0.1;  // whether to stop
constexpr size_t kSampleBytes = 2;
constexpr size_t kAuHeaderBytes = 24;
constexpr int64_t kSkippedAtOnce = 1 << 14;
constexpr const char* kReading = "reading audio";

thread_local int patient_scopes = 0;

bool IsPatient() { return patient_scopes > 0; }

void ThrowIfToStop() {
  if (!IsPatient()) ThrowIfCancelled(kReading);
}

// `output`: as ffmpeg's options say what it writes.
std::vector<std::string> Command(const std::string& file, const std::vector<std::string>& output) {
  std::vector<std::string> words = {kProgram, "-nostdin", "-loglevel",    "error", "-y",    "-protocol_whitelist",
                                    "file",   "-i",       "file:" + file, "-map",  "0:a:0", "-vn"};
  words.insert(words.end(), output.begin(), output.end());
  words.emplace_back("file:/dev/stdout");
  return words;
}

std::string FirstLine(const FileDescriptor& file) {
  const std::string text = ReadFile(PathOf(file));
  return text.empty() ? "it does not say why" : text.substr(0, text.find('\n'));
}

[[noreturn]] void ThrowUnreadable(const std::string& name, const std::string& why_foreign, const std::string& said) {
  if (said.find("matches no streams") != std::string::npos) {  // of -map 0:a:0
    Throw<InputError>("'{}' has no sound: pictures alone, or nothing", name);
  }
  Throw<InputError>("{} Neither can ffmpeg read it, which says: {}", why_foreign, said);
}

uint32_t BigEndian(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (const std::byte byte : bytes.first(4)) value = value << 8 | std::to_integer<uint32_t>(byte);
  return value;
}

// Lengths that were counted, by name, size and time of the last change.
class CountedLengths {
 public:
  using Key = std::tuple<std::string, uintmax_t, int64_t>;

  static Key KeyOf(const std::string& file) {
    std::error_code none;
    return {fs::absolute(file, none).string(), fs::file_size(file, none),
            fs::last_write_time(file, none).time_since_epoch().count()};
  }
  std::optional<int64_t> Find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = lengths_.find(key);
    return found == lengths_.end() ? std::nullopt : std::optional(found->second);
  }
  void Keep(const Key& key, int64_t length) {
    const std::lock_guard lock(mutex_);
    lengths_[key] = length;
  }
  static CountedLengths& OfThisProcess() {
    static CountedLengths lengths;
    return lengths;
  }

 private:
  std::mutex mutex_;
  std::map<Key, int64_t> lengths_;
};

}  // namespace

PatientReading::PatientReading() { ++patient_scopes; }
PatientReading::~PatientReading() { --patient_scopes; }

bool ForeignSoundIsRead() {
  const char* path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "" : path;
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    if (!folder.empty() && ::access((fs::path(folder) / kProgram).c_str(), X_OK) == 0) return true;
    folders.remove_prefix(std::min(folders.size(), folder.size() + 1));
  }
  return false;
}

bool IsForeignSound(const fs::path& file) {
  const SoundFile sound(file);
  return !sound.is_known() && sound.may_be_foreign();
}

ForeignSound::ForeignSound(const fs::path& file, std::string why_foreign)
    : name_(file.string()), why_foreign_(std::move(why_foreign)), messages_(NewScratchFile()) {
  // The file may be our standard input; and signals to us, and to our group, are ffmpeg's too, unless it is to go on.
  ffmpeg_ = RunningProgram::Start(Command(name_, {"-c:a", "pcm_s16be", "-f", "au"}), PathOf(messages_),
                                  {.shares_input = true, .own_group = IsPatient()});
  if (ffmpeg_ == nullptr) {
    Throw<InputError>("{} ffmpeg, which may be able to read it, is not installed", why_foreign_);
  }
  ReadHeader();
  num_samples_ = CountedLengths::OfThisProcess().Find(CountedLengths::KeyOf(name_));
}

size_t ForeignSound::ReadBytes(std::span<std::byte> bytes) {
  size_t got = 0;
  while (ffmpeg_ != nullptr && got < bytes.size()) {
    const auto count = ffmpeg_->Read(bytes.subspan(got), kBetweenAsksS);
    ThrowIfToStop();
    if (count == 0) {
      RequireGoodEnd();
      ffmpeg_ = nullptr;
    }
    got += count.value_or(0);
  }
  return got;
}

void ForeignSound::RequireGoodEnd() {
  std::optional<int> status;
  while (!(status = ffmpeg_->ExitStatus(kBetweenAsksS))) ThrowIfToStop();
  ThrowIfToStop();
  if (*status == 0) return;
  ThrowIfCancelled(kReading);
  const std::string said = FirstLine(messages_);
  if (sample_rate_hz_ == 0) ThrowUnreadable(name_, why_foreign_, said);
  Throw<InputError>("'{}' is damaged after {:.3f} s: ffmpeg ended with status {} and says: {}", name_,
                    static_cast<double>(read_) / sample_rate_hz_, *status, said);
}

// Of Sun's format AU, which says nothing that is known at the end alone.
void ForeignSound::ReadHeader() {
  std::array<std::byte, kAuHeaderBytes> header;
  const size_t got = ReadBytes(header);
  const std::span<const std::byte> bytes(header);
  const bool is_au = got == header.size() && BigEndian(bytes) == 0x2e736e64;  // ".snd"
  const uint32_t begin = is_au ? BigEndian(bytes.subspan(4)) : 0;
  const uint32_t rate_hz = is_au ? BigEndian(bytes.subspan(16)) : 0,
                 channels = is_au ? BigEndian(bytes.subspan(20)) : 0;
  constexpr uint32_t kMostBytes = 1 << 16, kHighestHz = 10'000'000, kMostChannels = 1024;
  if (begin < kAuHeaderBytes || begin > kMostBytes || rate_hz == 0 || rate_hz > kHighestHz || channels == 0 ||
      channels > kMostChannels) {
    ThrowUnreadable(name_, why_foreign_, got == 0 ? "nothing" : "something that is no sound");
  }
  std::vector<std::byte> rest(begin - kAuHeaderBytes);
  ReadBytes(rest);
  sample_rate_hz_ = static_cast<int>(rate_hz);
  num_channels_ = static_cast<int>(channels);
}

int64_t ForeignSound::Read(int64_t count, float* out) {
  const size_t frame_bytes = kSampleBytes * static_cast<size_t>(num_channels_);
  bytes_.resize(static_cast<size_t>(count) * frame_bytes);
  const size_t frames = ReadBytes(bytes_) / frame_bytes;
  for (size_t i = 0; i < frames * static_cast<size_t>(num_channels_); ++i) {
    const auto high = std::to_integer<unsigned>(bytes_[2 * i]), low = std::to_integer<unsigned>(bytes_[2 * i + 1]);
    out[i] = static_cast<float>(static_cast<int16_t>(high << 8 | low));
  }
  read_ += static_cast<int64_t>(frames);
  if (ffmpeg_ == nullptr && !num_samples_) {
    num_samples_ = read_;
    CountedLengths::OfThisProcess().Keep(CountedLengths::KeyOf(name_), read_);
  }
  return static_cast<int64_t>(frames);
}

void ForeignSound::GoTo(int64_t begin) {
  std::vector<float> skipped(static_cast<size_t>(kSkippedAtOnce * num_channels_));
  while (read_ < begin && Read(std::min(kSkippedAtOnce, begin - read_), skipped.data()) > 0) {
  }
}

int64_t ForeignSound::CountSamples() const {
  if (num_samples_) return *num_samples_;
  ForeignSound again(name_, why_foreign_);
  again.GoTo(std::numeric_limits<int64_t>::max());
  return again.num_samples().value_or(again.read_);
}

UnpackedSound::UnpackedSound(const fs::path& file) : file_(NewScratchFile()) {
  int64_t bytes = 0;
  {
    const ForeignSound sound(file, fmt::format("'{}' cannot be read as audio.", file.string()));
    bytes = sound.CountSamples() * sound.num_channels() * static_cast<int64_t>(kSampleBytes);
  }
  const fs::path folder = fs::temp_directory_path();
  const auto room = static_cast<int64_t>(std::min<uintmax_t>(fs::space(folder).available, INT64_MAX));
  if (room < bytes) {
    Throw<IoError>(
        "parts of '{}' are read from a copy that takes {:.1f} MB in '{}', which has {:.1f} MB of room: set TMPDIR to "
        "a folder with more, or convert the file to FLAC",
        file.string(), static_cast<double>(bytes) / 1e6, folder.string(), static_cast<double>(room) / 1e6);
  }
  const FileDescriptor messages = NewScratchFile();
  // Standard output exists already. Under its name, unlike as a pipe, ffmpeg may complete the header at the end.
  const auto status = RunProgram(Command(file.string(), {"-c:a", "pcm_s16le", "-rf64", "auto", "-f", "wav"}),
                                 PathOf(messages), OnCancel::kEndAlone, file_.get());
  if (status == 0) return;
  Throw<InputError>("'{}' cannot be unpacked by ffmpeg, which says: {}", file.string(), FirstLine(messages));
}

fs::path UnpackedSound::path() const { return PathOf(file_); }

}  // namespace antiphon::feat
