#include "feat/audio.h"

#include <soxr.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "feat/sound_source.h"

namespace antiphon::feat {
namespace {

constexpr float kFullScale = 32768.0f;
// Float files may exceed full scale, but not by this much.
constexpr float kLargestSample = 1e9f;
constexpr int64_t kBlockSamples = int64_t{1} << 16;
constexpr int64_t kUnknownEnd = std::numeric_limits<int64_t>::max();

struct SampleRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// `length`: none if it is not known yet. Then the range may reach further than the sound.
SampleRange FindRange(const SoundSource& sound, const AudioSelection& selection, std::optional<int64_t> length) {
  if (!std::isfinite(selection.start_s) || selection.start_s < 0 || !std::isfinite(selection.end_s)) {
    Throw<InputError>("segment {} … {} s of '{}' is not a range of time", selection.start_s, selection.end_s,
                      sound.name());
  }
  const double rate = sound.sample_rate_hz();
  const double duration_s = length ? static_cast<double>(*length) / rate : std::numeric_limits<double>::infinity();
  const auto sample = [&](double seconds) { return static_cast<int64_t>(std::llround(seconds * rate)); };
  SampleRange range{sample(std::min(selection.start_s, 1e9)), length.value_or(kUnknownEnd)};
  if (selection.end_s > 0) {
    if (selection.end_s > duration_s + selection.end_slack_s) {
      Throw<InputError>("segment {} … {} s ends after the end of '{}', which lasts {:.3f} s; correct the segments file",
                        selection.start_s, selection.end_s, sound.name(), duration_s);
    }
    range.end = std::min(sample(std::min(selection.end_s, 1e9)), range.end);
  }
  if (range.begin >= range.end) {
    if (!length) return FindRange(sound, selection, sound.CountSamples());
    if (length == 0) Throw<InputError>("'{}' holds no samples; remove the utterance or record it again", sound.name());
    Throw<InputError>("segment {} … {} s of '{}' ({:.3f} s) holds no samples; correct the segments file",
                      selection.start_s, selection.end_s, sound.name(), duration_s);
  }
  return range;
}

void Downmix(const float* block, int64_t frames, int channels, int channel, float* out) {
  for (int64_t i = 0; i < frames; ++i) {
    const float* x = block + i * channels;
    if (channel >= 0) {
      out[i] = x[channel];
    } else {
      float sum = 0.0f;
      for (int c = 0; c < channels; ++c) sum += x[c];
      out[i] = sum / static_cast<float>(channels);
    }
  }
}

// `before`: samples of the file before these.
void RefuseBadSamples(const SoundSource& sound, const std::vector<float>& samples, int64_t before) {
  int64_t bad = 0;
  for (const float x : samples) bad += !(std::fabs(x) <= kLargestSample);
  if (bad == 0) return;
  size_t first = 0;
  while (std::fabs(samples[first]) <= kLargestSample) ++first;
  Throw<InputError>(
      "'{}' has {} samples that are not finite or far beyond full scale, the first ({}) at {:.4f} s; "
      "write the file again with values in −1 … 1",
      sound.name(), bad, samples[first] / kFullScale,
      static_cast<double>(before + static_cast<int64_t>(first)) / sound.sample_rate_hz());
}

// One channel of part of a file, a block at a time.
class BlockReader {
 public:
  BlockReader(SoundSource& sound, const AudioSelection& selection)
      : sound_(sound),
        selection_(selection),
        channels_(sound.num_channels()),
        channel_(channels_ == 1 ? 0 : selection.channel) {
    if (selection.channel >= channels_) {
      Throw<InputError>("channel {} of '{}' was asked for, which has {} (0 … {})", selection.channel, sound.name(),
                        channels_, channels_ - 1);
    }
    sound.RefuseCutShort();
    range_ = FindRange(sound, selection, sound.num_samples());
    if (range_.begin > 0) sound.GoTo(range_.begin);
  }

  int64_t got() const { return got_; }
  int channels_mixed() const { return channel_ >= 0 ? 1 : channels_; }
  double duration_s() const {
    const SampleRange range = FindRange(sound_, selection_, sound_.CountSamples());
    return static_cast<double>(range.end - range.begin) / sound_.sample_rate_hz();
  }

  // Appends samples; false if there are no more.
  bool Append(std::vector<float>& samples) {
    const int64_t left = range_.end - range_.begin - got_;
    if (left <= 0) return false;
    const int64_t wanted = std::min(std::max<int64_t>(1, kBlockSamples / channels_), left);
    block_.resize(static_cast<size_t>(wanted * channels_));
    const int64_t count = sound_.Read(wanted, block_.data());
    if (count <= 0) return false;
    const size_t before = samples.size();
    samples.resize(before + static_cast<size_t>(count));
    Downmix(block_.data(), count, channels_, channel_, samples.data() + before);
    got_ += count;
    return true;
  }

  // Once there are no more: whether those were all that should be there.
  void RefuseShortRead() {
    // Of sound whose length nobody knew, the end was the end, but the range may begin or end too late.
    if (range_.begin + got_ < range_.end && sound_.num_samples())
      range_ = FindRange(sound_, selection_, sound_.num_samples());
    if (range_.begin + got_ >= range_.end) return;
    const double rate = sound_.sample_rate_hz();
    Throw<InputError>(
        "'{}' is cut short: {} samples expected ({:.3f} s), {} could be decoded ({:.3f} s); fetch the file again",
        sound_.name(), range_.end, static_cast<double>(range_.end) / rate, range_.begin + got_,
        static_cast<double>(range_.begin + got_) / rate);
  }

 private:
  SoundSource& sound_;
  AudioSelection selection_;
  int channels_;
  int channel_;  // −1: the mean
  SampleRange range_;
  int64_t got_ = 0;
  std::vector<float> block_;
};

Waveform ReadAll(SoundSource& sound, const AudioSelection& selection) {
  BlockReader reader(sound, selection);
  Waveform wave;
  wave.sample_rate_hz = sound.sample_rate_hz();
  wave.channels_mixed = reader.channels_mixed();
  // The header's length is not believed before the samples are seen: memory grows with what is really there.
  while (reader.Append(wave.samples)) {
  }
  reader.RefuseShortRead();
  RefuseBadSamples(sound, wave.samples, 0);
  return wave;
}

AudioInfo Describe(const SoundSource& sound, int64_t num_samples) {
  return {sound.sample_rate_hz(), sound.num_channels(), num_samples, sound.Format()};
}

std::vector<float> ConvertRate(std::span<const float> samples, double in_rate, double out_rate, size_t out_size) {
  std::vector<float> out(out_size + 8);
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  const soxr_io_spec_t io = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_runtime_spec_t runtime = soxr_runtime_spec(1);
  size_t consumed = 0, written = 0;
  const soxr_error_t error = soxr_oneshot(in_rate, out_rate, 1, samples.data(), samples.size(), &consumed, out.data(),
                                          out.size(), &written, &io, &quality, &runtime);
  if (error != nullptr)
    Throw<InputError>("cannot resample from {} to {} Hz: {}", in_rate, out_rate, soxr_strerror(error));
  out.resize(std::min(written, out_size));
  out.resize(out_size, 0.0f);
  return out;
}

}  // namespace

Waveform ReadAudio(const std::filesystem::path& path, const AudioSelection& selection) {
  return ReadAll(*OpenSound(path), selection);
}

Waveform ReadAudio(std::span<const std::byte> bytes, const std::string& name, const AudioSelection& selection) {
  return ReadAll(*OpenSound(bytes, name), selection);
}

struct AudioReader::State {
  State(std::unique_ptr<SoundSource> s, const AudioSelection& selection)
      : sound(std::move(s)), reader(*sound, selection) {}
  std::unique_ptr<SoundSource> sound;
  BlockReader reader;
};

AudioReader::AudioReader(const std::filesystem::path& path, const AudioSelection& selection)
    : state_(std::make_unique<State>(OpenSound(path), selection)) {}
AudioReader::AudioReader(std::span<const std::byte> bytes, const std::string& name, const AudioSelection& selection)
    : state_(std::make_unique<State>(OpenSound(bytes, name), selection)) {}
AudioReader::~AudioReader() = default;
AudioReader::AudioReader(AudioReader&&) noexcept = default;

int AudioReader::sample_rate_hz() const { return state_->sound->sample_rate_hz(); }
int AudioReader::channels_mixed() const { return state_->reader.channels_mixed(); }
double AudioReader::duration_s() const { return state_->reader.duration_s(); }

bool AudioReader::Read(std::vector<float>& samples) {
  samples.clear();
  const int64_t before = state_->reader.got();
  if (!state_->reader.Append(samples)) {
    state_->reader.RefuseShortRead();
    return false;
  }
  RefuseBadSamples(*state_->sound, samples, before);
  return true;
}

AudioInfo ProbeAudio(const std::filesystem::path& path) {
  const auto sound = OpenSound(path);
  return Describe(*sound, sound->CountSamples());
}
AudioInfo ProbeAudio(std::span<const std::byte> bytes, const std::string& name) {
  const auto sound = OpenSound(bytes, name);
  return Describe(*sound, sound->CountSamples());
}
AudioInfo ProbeAudioFormat(const std::filesystem::path& path) {
  const auto sound = OpenSound(path);
  return Describe(*sound, sound->num_samples().value_or(kUnknownLength));
}

Waveform Resample(Waveform wave, int sample_rate_hz) {
  if (sample_rate_hz <= 0) Throw<UsageError>("sample rate {} Hz must be positive", sample_rate_hz);
  if (sample_rate_hz == wave.sample_rate_hz) return wave;
  const auto size = static_cast<size_t>(
      std::llround(static_cast<double>(wave.samples.size()) * sample_rate_hz / wave.sample_rate_hz));
  wave.samples = ConvertRate(wave.samples, wave.sample_rate_hz, sample_rate_hz, size);
  wave.sample_rate_hz = sample_rate_hz;
  return wave;
}

struct Resampler::State {
  struct Delete {
    void operator()(soxr* resampler) const { soxr_delete(resampler); }
  };
  void Process(const float* samples, size_t count, std::vector<float>& out) {
    // Null samples say that none follow.
    for (;;) {
      piece.resize(kBlockSamples);
      size_t consumed = 0, written = 0;
      const soxr_error_t error =
          soxr_process(resampler.get(), samples, count, &consumed, piece.data(), piece.size(), &written);
      if (error != nullptr) Throw<InputError>("cannot resample from {} to {} Hz: {}", from_hz, to_hz, error);
      const auto end =
          piece.begin() + static_cast<std::ptrdiff_t>(std::min<int64_t>(static_cast<int64_t>(written), most - given));
      given += end - piece.begin();
      out.insert(out.end(), piece.begin(), end);
      if (samples != nullptr) {
        samples += consumed;
        count -= consumed;
        if (count == 0 && written < piece.size()) return;
      } else if (written == 0) {
        return;
      }
    }
  }

  int from_hz = 0, to_hz = 0;
  std::unique_ptr<soxr, Delete> resampler;  // null: the rates are the same
  int64_t taken = 0, given = 0;
  int64_t most = INT64_MAX;  // samples to be given
  std::vector<float> piece;
};

Resampler::Resampler(int from_hz, int to_hz) : state_(std::make_unique<State>()) {
  if (to_hz <= 0) Throw<UsageError>("sample rate {} Hz must be positive", to_hz);
  state_->from_hz = from_hz;
  state_->to_hz = to_hz;
  if (from_hz == to_hz) return;
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  const soxr_io_spec_t io = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_runtime_spec_t runtime = soxr_runtime_spec(1);
  soxr_error_t error = nullptr;
  state_->resampler.reset(soxr_create(from_hz, to_hz, 1, &error, &io, &quality, &runtime));
  if (error != nullptr) Throw<InputError>("cannot resample from {} to {} Hz: {}", from_hz, to_hz, error);
}
Resampler::~Resampler() = default;
Resampler::Resampler(Resampler&&) noexcept = default;

void Resampler::Accept(std::span<const float> samples, std::vector<float>& out) {
  if (samples.empty()) return;
  state_->taken += std::ssize(samples);
  if (state_->resampler == nullptr) {
    out.insert(out.end(), samples.begin(), samples.end());
  } else {
    state_->Process(samples.data(), samples.size(), out);
  }
}

void Resampler::Finish(std::vector<float>& out) {
  if (state_->resampler == nullptr) return;
  state_->most = std::llround(static_cast<double>(state_->taken) * state_->to_hz / state_->from_hz);
  state_->Process(nullptr, 0, out);
  out.resize(out.size() + static_cast<size_t>(state_->most - state_->given), 0.0f);
  state_->given = state_->most;
}

std::vector<float> ResampleBySpeed(std::span<const float> samples, double speed) {
  if (!(speed > 0.01 && speed < 100.0)) Throw<UsageError>("speed {} is not between 0.01 and 100", speed);
  if (speed == 1.0) return {samples.begin(), samples.end()};
  return ConvertRate(samples, speed, 1.0,
                     static_cast<size_t>(std::llround(static_cast<double>(samples.size()) / speed)));
}

void WriteWav(const std::filesystem::path& path, const Waveform& wave) {
  if (wave.sample_rate_hz <= 0) Throw<UsageError>("cannot write '{}' at {} Hz", path.string(), wave.sample_rate_hz);
  const auto data_bytes = static_cast<uint32_t>(wave.samples.size() * 2);
  std::string bytes;
  const auto put = [&](uint32_t value, int count) {
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  };
  const auto rate = static_cast<uint32_t>(wave.sample_rate_hz);
  bytes += "RIFF";
  put(36 + data_bytes, 4);
  bytes += "WAVEfmt ";
  put(16, 4);
  put(1, 2);
  put(1, 2);
  put(rate, 4);
  put(rate * 2, 4);
  put(2, 2);
  put(16, 2);
  bytes += "data";
  put(data_bytes, 4);
  for (const float x : wave.samples) {
    put(static_cast<uint32_t>(std::lrint(std::clamp(x, -kFullScale, kFullScale - 1.0f))), 2);
  }
  WriteFileAtomically(path, bytes);
}

}  // namespace antiphon::feat
