#include "feat/augment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "feat/front_end.h"

namespace antiphon::feat {
namespace {

double MeanPower(std::span<const float> samples) {
  double sum = 0.0;
  for (const float x : samples) sum += static_cast<double>(x) * x;
  return samples.empty() ? 0.0 : sum / static_cast<double>(samples.size());
}

// As much of a recording as n samples at another rate need, from `offset` (a share of the recording) on, around its
// end.
std::vector<float> PieceAt(const Waveform& noise, int sample_rate_hz, int64_t n, double offset) {
  const auto size = noise.samples.size();
  const double ratio = static_cast<double>(noise.sample_rate_hz) / sample_rate_hz;
  const auto needed = static_cast<size_t>(std::ceil(static_cast<double>(n) * ratio)) + 8;
  const auto start = static_cast<size_t>(offset * static_cast<double>(size));
  Waveform piece{std::vector<float>(needed), noise.sample_rate_hz};
  for (size_t i = 0; i < needed; ++i) piece.samples[i] = noise.samples[(start + i) % size];
  return Resample(std::move(piece), sample_rate_hz).samples;
}

Waveform ReadNoise(const std::string& path) {
  Waveform wave = WithContext([&] { return ReadAudio(std::filesystem::path(path)); },
                              [] { return std::string("reading a recording to augment with"); });
  if (MeanPower(wave.samples) == 0.0) Throw<InputError>("'{}' is silent; it cannot serve as noise or room", path);
  return wave;
}

constexpr char kClean[] = "clean";

std::vector<std::string> LabelNoises(const std::vector<std::string>& kinds, const std::vector<std::string>& files) {
  std::vector<std::string> labels = kinds;
  for (const std::string& file : files) labels.push_back(std::filesystem::path(file).stem().string());
  const std::vector<std::string> names = labels;
  for (size_t i = 0; i < files.size(); ++i) {
    std::string& label = labels[kinds.size() + i];
    if (label == kClean || std::count(names.begin(), names.end(), label) > 1) label = files[i];
    std::replace_if(
        label.begin(), label.end(), [](unsigned char c) { return std::isspace(c) != 0; }, '_');
  }
  return labels;
}

}  // namespace

Augmenter::Augmenter(const AugmentOptions& options) : options_(options) {
  for (const std::string& kind : options.noise_kinds) {
    if (kind != "white" && kind != "pink") Throw<UsageError>("noise kind '{}' is not one of: white, pink", kind);
  }
  if (options.volume_low > options.volume_high || options.snr_low_db > options.snr_high_db ||
      options.reverb_time_low_s > options.reverb_time_high_s) {
    Throw<UsageError>("a range of augmentation is upside down: volume {} … {}, SNR {} … {} dB, reverberation {} … {} s",
                      options.volume_low, options.volume_high, options.snr_low_db, options.snr_high_db,
                      options.reverb_time_low_s, options.reverb_time_high_s);
  }
  if (options.noise_probability > 0 && options.noise_kinds.empty() && options.noise_files.empty()) {
    Throw<UsageError>("noise-probability is {}, but noise-kinds and noise-files name no noise",
                      options.noise_probability);
  }
  noise_labels_ = LabelNoises(options.noise_kinds, options.noise_files);
  for (const std::string& path : options.noise_files) noises_.push_back(ReadNoise(path));
  for (const std::string& path : options.reverb_files) rooms_.push_back(ReadNoise(path));
}

Augmenter::Choice Augmenter::Choose(Rng& rng) const {
  Choice choice;
  if (!options_.speeds.empty()) choice.speed = options_.speeds[rng.Below(options_.speeds.size())];
  choice.volume = std::exp(rng.Uniform(std::log(options_.volume_low), std::log(options_.volume_high)));
  if (options_.volume_low == options_.volume_high) choice.volume = options_.volume_low;
  // Every number is drawn whether used or not, so that one option does not change what the others do.
  const bool noise = rng.Uniform() < options_.noise_probability;
  const size_t sources = options_.noise_kinds.size() + noises_.size();
  const uint64_t source = rng.NextU64();
  if (noise) choice.noise = static_cast<int>(source % sources);
  choice.snr_db = rng.Uniform(options_.snr_low_db, options_.snr_high_db);
  choice.reverb = rng.Uniform() < options_.reverb_probability;
  const uint64_t room = rng.NextU64();
  if (!rooms_.empty()) choice.room = static_cast<int>(room % rooms_.size());
  choice.reverb_time_s = rng.Uniform(options_.reverb_time_low_s, options_.reverb_time_high_s);
  return choice;
}

Waveform Augmenter::Apply(const Waveform& wave, std::string_view utt_id) const {
  Rng rng(static_cast<uint64_t>(options_.seed), UtteranceSeed(utt_id));
  return Apply(wave, rng);
}

Waveform Augmenter::Apply(const Waveform& wave, Rng& rng) const {
  const Choice choice = Choose(rng);
  Waveform out{ResampleBySpeed(wave.samples, choice.speed), wave.sample_rate_hz};
  if (choice.reverb) {
    const std::vector<float> room =
        choice.room >= 0 ? Resample(rooms_[static_cast<size_t>(choice.room)], wave.sample_rate_hz).samples
                         : MakeRoom(choice.reverb_time_s, wave.sample_rate_hz, rng);
    AddReverb(out.samples, room);
  }
  if (choice.noise >= 0) {
    const auto index = static_cast<size_t>(choice.noise), kinds = options_.noise_kinds.size();
    const auto size = static_cast<int64_t>(out.samples.size());
    const std::vector<float> noise = index < kinds
                                         ? MakeNoise(options_.noise_kinds[index], size, rng)
                                         : PieceAt(noises_[index - kinds], wave.sample_rate_hz, size, rng.Uniform());
    AddNoise(out.samples, noise, 0, choice.snr_db);
  }
  if (choice.volume != 1.0) {
    for (float& x : out.samples) x *= static_cast<float>(choice.volume);
  }
  return out;
}

Augmenter::Choice Augmenter::ChoiceFor(std::string_view utt_id) const {
  Rng rng(static_cast<uint64_t>(options_.seed), UtteranceSeed(utt_id));
  return Choose(rng);
}

const std::string& Augmenter::NoiseName(int noise) const {
  const auto index = static_cast<size_t>(noise), kinds = options_.noise_kinds.size();
  return index < kinds ? options_.noise_kinds[index] : options_.noise_files[index - kinds];
}

std::string Augmenter::NoiseLabel(std::string_view utt_id) const {
  const int noise = ChoiceFor(utt_id).noise;
  return noise < 0 ? kClean : noise_labels_[static_cast<size_t>(noise)];
}

std::string Augmenter::Describe(std::string_view utt_id) const {
  const Choice choice = ChoiceFor(utt_id);
  std::vector<std::string> parts;
  if (choice.speed != 1.0) parts.push_back(fmt::format("speed {}", choice.speed));
  if (choice.reverb) {
    parts.push_back(choice.room >= 0 ? fmt::format("room '{}'", options_.reverb_files[static_cast<size_t>(choice.room)])
                                     : fmt::format("synthetic room of {:.2f} s", choice.reverb_time_s));
  }
  if (choice.noise >= 0) {
    parts.push_back(fmt::format("{} noise at {:.1f} dB", NoiseName(choice.noise), choice.snr_db));
  }
  if (choice.volume != 1.0) parts.push_back(fmt::format("volume {:.2f}", choice.volume));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<float> MakeNoise(std::string_view kind, int64_t num_samples, Rng& rng) {
  std::vector<float> noise(static_cast<size_t>(num_samples));
  for (float& x : noise) x = static_cast<float>(rng.Normal());
  if (kind == "pink") {
    // Three first-order low-passes whose sum falls by 3 dB per octave (P. Kellet's economy filter).
    double low = 0.0, middle = 0.0, high = 0.0;
    for (float& x : noise) {
      low = 0.99765 * low + x * 0.0990460;
      middle = 0.96300 * middle + x * 0.2965164;
      high = 0.57000 * high + x * 1.0526913;
      x = static_cast<float>(low + middle + high + x * 0.1848);
    }
    const double power = MeanPower(noise);
    if (power > 0) {
      for (float& x : noise) x /= static_cast<float>(std::sqrt(power));
    }
  } else if (kind != "white") {
    Throw<UsageError>("noise kind '{}' is not one of: white, pink", kind);
  }
  return noise;
}

void AddNoise(std::vector<float>& samples, std::span<const float> noise, int64_t offset, double snr_db) {
  const double signal = MeanPower(samples), power = MeanPower(noise);
  if (signal == 0.0 || power == 0.0) return;
  const auto scale = static_cast<float>(std::sqrt(signal / power * std::pow(10.0, -snr_db / 10.0)));
  size_t at = static_cast<size_t>(offset) % noise.size();
  for (float& x : samples) {
    x += scale * noise[at];
    if (++at == noise.size()) at = 0;
  }
}

void MaskSpectrum(MatrixView frames, const SpectralMaskOptions& options, Rng& rng, int num_columns) {
  const int64_t rows = frames.rows(),
                cols = num_columns > 0 ? std::min<int64_t>(num_columns, frames.cols()) : frames.cols();
  if (frames.empty()) return;
  std::vector<double> sum(static_cast<size_t>(cols));
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t d = 0; d < cols; ++d) sum[static_cast<size_t>(d)] += frames(t, d);
  }
  const auto fill = [&](int64_t t0, int64_t t1, int64_t d0, int64_t d1) {
    for (int64_t t = t0; t < t1; ++t) {
      for (int64_t d = d0; d < d1; ++d) {
        frames(t, d) = static_cast<float>(sum[static_cast<size_t>(d)] / static_cast<double>(rows));
      }
    }
  };
  const auto place = [&](int64_t largest, int64_t room) {
    const auto size = static_cast<int64_t>(rng.Below(static_cast<uint64_t>(std::min(largest, room)) + 1));
    const auto start = static_cast<int64_t>(rng.Below(static_cast<uint64_t>(room - size) + 1));
    return std::pair(start, start + size);
  };
  for (int i = 0; i < options.num_bands; ++i) {
    const auto [begin, end] = place(options.max_band, cols);
    fill(0, rows, begin, end);
  }
  const auto longest = std::min<int64_t>(options.max_stretch_frames,
                                         static_cast<int64_t>(options.max_stretch_share * static_cast<double>(rows)));
  for (int i = 0; i < options.num_stretches; ++i) {
    const auto [begin, end] = place(longest, rows);
    fill(begin, end, 0, cols);
  }
}

}  // namespace antiphon::feat
