#include "data/audio_source.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <functional>
#include <mutex>
#include <span>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "feat/foreign_sound.h"

namespace antiphon::data {
namespace {

// Of a sound that ffmpeg decodes from its beginning, so much is decoded for nothing; for more it is unpacked once.
constexpr double kFarS = 30.0;

// Runs a shell command and takes what it writes.
std::string RunCommand(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) Throw<IoError>("cannot start the command '{}'", command);
  std::string output;
  std::array<char, 1 << 16> buffer{};
  for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) output.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  if (status != 0) {
    Throw<InputError>("the command '{}' failed with exit status {}", command,
                      WIFEXITED(status) ? WEXITSTATUS(status) : status);
  }
  return output;
}

}  // namespace

struct AudioSource::Impl {
  explicit Impl(const DataDir& d) : dir(d) {}

  // Where the sound of a recording is.
  struct Place {
    std::filesystem::path file;               // or, if that is empty:
    std::span<const std::byte> bytes;         // of `holder`
    std::string name;                         // of these, for errors
    std::shared_ptr<const void> holder = {};  // of bytes or of a file that lives no longer
  };

  Place Find(const Recording& recording, double start_s = 0.0) const {
    const AudioReference reference = ParseAudioReference(recording.reference);
    if (!reference.command.empty()) {
      const std::shared_ptr<const std::string> output = Output(recording, reference.command);
      return {{}, std::as_bytes(std::span(*output)), "output of " + reference.command, output};
    }
    const std::filesystem::path path = dir.ResolveAudio(recording);
    if (!reference.offset) {
      if (!IsUnpacked(path, start_s)) return {path, {}, {}};
      const std::shared_ptr<const feat::UnpackedSound> unpacked = Unpacked(recording, path);
      return {unpacked->path(), {}, {}, unpacked};
    }
    const auto mapped = std::make_shared<const MappedFile>(path);
    if (*reference.offset >= mapped->bytes().size()) {
      Throw<InputError>("'{}' has no byte {}, only {} bytes", path.string(), *reference.offset, mapped->bytes().size());
    }
    return {{}, mapped->bytes().subspan(*reference.offset), recording.reference, mapped};
  }

  static bool IsUnpacked(const std::filesystem::path& path, double start_s) {
    return start_s >= kFarS && feat::IsForeignSound(path);
  }

  // Calls file(path) or memory(bytes, name), whichever the reference needs.
  template <class T>
  T Visit(const Recording& recording, double start_s, const std::function<T(const std::filesystem::path&)>& file,
          const std::function<T(std::span<const std::byte>, const std::string&)>& memory) const {
    return WithContext(
        [&]() -> T {
          const Place place = Find(recording, start_s);
          return place.file.empty() ? memory(place.bytes, place.name) : file(place.file);
        },
        [&] { return Named(recording); });
  }

  std::string Named(const Recording& recording) const {
    return fmt::format("{}:{}, recording '{}'", (dir.folder() / "wav.scp").string(), recording.line, recording.id);
  }

  std::shared_ptr<const std::string> Output(const Recording& recording, const std::string& command) const {
    if (!dir.options().allow_commands) {
      Throw<InputError>("it is made by a command; commands are executed only with --allow-commands");
    }
    {
      const std::lock_guard lock(mutex);
      if (kept_output && kept_id == recording.id) return kept_output;
    }
    auto output = std::make_shared<const std::string>(RunCommand(command));
    const std::lock_guard lock(mutex);
    kept_id = recording.id;
    kept_output = output;
    return output;
  }

  // A copy that can be read from any place; one at a time is made.
  std::shared_ptr<const feat::UnpackedSound> Unpacked(const Recording& recording,
                                                      const std::filesystem::path& path) const {
    const std::lock_guard lock(unpacking);
    if (kept_unpacked == nullptr || kept_unpacked_id != recording.id) {
      kept_unpacked = nullptr;  // its room first
      kept_unpacked = std::make_shared<const feat::UnpackedSound>(path);
      kept_unpacked_id = recording.id;
    }
    return kept_unpacked;
  }

  const DataDir& dir;
  mutable std::mutex mutex;
  mutable std::string kept_id;
  mutable std::shared_ptr<const std::string> kept_output;
  mutable std::mutex unpacking;
  mutable std::string kept_unpacked_id;
  mutable std::shared_ptr<const feat::UnpackedSound> kept_unpacked;
};

AudioSource::AudioSource(const DataDir& dir) : impl_(std::make_unique<Impl>(dir)) {}
AudioSource::~AudioSource() = default;

feat::AudioInfo AudioSource::Probe(const Recording& recording) const {
  return impl_->Visit<feat::AudioInfo>(
      recording, /*start_s=*/0.0, [](const std::filesystem::path& path) { return feat::ProbeAudio(path); },
      [](std::span<const std::byte> bytes, const std::string& name) { return feat::ProbeAudio(bytes, name); });
}

feat::Waveform AudioSource::Read(const Recording& recording, const feat::AudioSelection& selection) const {
  return impl_->Visit<feat::Waveform>(
      recording, selection.start_s, [&](const std::filesystem::path& path) { return feat::ReadAudio(path, selection); },
      [&](std::span<const std::byte> bytes, const std::string& name) {
        return feat::ReadAudio(bytes, name, selection);
      });
}

feat::Waveform AudioSource::Read(const Utterance& u, int channel) const {
  return WithContext(
      [&] {
        return Read(impl_->dir.recordings()[u.recording],
                    {.channel = u.channel >= 0 ? u.channel : channel, .start_s = u.start_s, .end_s = u.end_s});
      },
      [&] { return fmt::format("utterance '{}'", u.utt_id); });
}

AudioSource::Stream AudioSource::Open(const Utterance& u, int channel) const {
  return WithContext(
      [&] {
        const Recording& recording = impl_->dir.recordings()[u.recording];
        return WithContext(
            [&]() -> Stream {
              const feat::AudioSelection selection{
                  .channel = u.channel >= 0 ? u.channel : channel, .start_s = u.start_s, .end_s = u.end_s};
              const Impl::Place place = impl_->Find(recording, u.start_s);
              if (!place.file.empty()) return {place.holder, feat::AudioReader(place.file, selection)};
              return {place.holder, feat::AudioReader(place.bytes, place.name, selection)};
            },
            [&] { return impl_->Named(recording); });
      },
      [&] { return fmt::format("utterance '{}'", u.utt_id); });
}

bool AudioSource::Unpacks(const Utterance& u) const {
  const Recording& recording = impl_->dir.recordings()[u.recording];
  const AudioReference reference = ParseAudioReference(recording.reference);
  if (!reference.command.empty() || reference.offset) return false;
  return WithContext([&] { return Impl::IsUnpacked(impl_->dir.ResolveAudio(recording), u.start_s); },
                     [&] { return impl_->Named(recording); });
}

}  // namespace antiphon::data
