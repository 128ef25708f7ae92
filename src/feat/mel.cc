#include "feat/mel.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace antiphon::feat {
namespace {

constexpr double kPi = std::numbers::pi;

float MelOf(float hz) { return 1127.0f * std::log(1.0f + hz / 700.0f); }
float HzOf(float mel) { return 700.0f * (std::exp(mel / 1127.0f) - 1.0f); }

}  // namespace

FrameGeometry::FrameGeometry(const FrontEndOptions& options) {
  const double per_ms = options.sample_rate_hz * 0.001;
  length = static_cast<int>(per_ms * options.frame_length_ms);
  shift = static_cast<int>(per_ms * options.frame_shift_ms);
  if (length < 8 || shift < 1) {
    Throw<UsageError>("frames of {} ms every {} ms are {} samples every {} at {} Hz; at least 8 every 1 are needed",
                      options.frame_length_ms, options.frame_shift_ms, length, shift, options.sample_rate_hz);
  }
  padded_length = static_cast<int>(std::bit_ceil(static_cast<unsigned>(length)));
}

int64_t FrameGeometry::NumFrames(int64_t num_samples, bool snip_edges) const {
  if (snip_edges) return num_samples < length ? 0 : 1 + (num_samples - length) / shift;
  return (num_samples + shift / 2) / shift;
}

int64_t FrameGeometry::Start(int64_t frame, bool snip_edges) const {
  return snip_edges ? frame * shift : frame * shift + shift / 2 - length / 2;
}

std::vector<float> WindowFunction(const std::string& name, int length) {
  std::vector<float> window(static_cast<size_t>(length));
  const double step = 2.0 * kPi / (length - 1);
  for (int i = 0; i < length; ++i) {
    const double cosine = std::cos(step * i);
    double value = 1.0;
    if (name == "povey") value = std::pow(0.5 - 0.5 * cosine, 0.85);
    if (name == "hanning") value = 0.5 - 0.5 * cosine;
    if (name == "hamming") value = 0.54 - 0.46 * cosine;
    if (name == "blackman") value = 0.42 - 0.5 * cosine + 0.08 * std::cos(2.0 * step * i);
    if (name == "sine") value = std::sin(0.5 * step * i);
    window[static_cast<size_t>(i)] = static_cast<float>(value);
  }
  return window;
}

MelBanks::MelBanks(const FrontEndOptions& options) {
  const FrameGeometry geometry(options);
  const int fft_bins = geometry.padded_length / 2;
  const auto rate = static_cast<float>(options.sample_rate_hz);
  const float nyquist = 0.5f * rate;
  const auto low = static_cast<float>(options.low_freq_hz);
  const auto high =
      static_cast<float>(options.high_freq_hz > 0 ? options.high_freq_hz : nyquist + options.high_freq_hz);
  if (!(low >= 0 && low < high && high <= nyquist)) {
    Throw<UsageError>(
        "mel filters from low-freq-hz = {} to high-freq-hz = {} do not fit below half the sample rate, {} Hz; "
        "lower high-freq-hz (≤ 0 counts down from there)",
        options.low_freq_hz, options.high_freq_hz, nyquist);
  }
  const float bin_width = rate / static_cast<float>(geometry.padded_length);
  const float mel_low = MelOf(low);
  const float delta = (MelOf(high) - mel_low) / static_cast<float>(options.mel_bins + 1);
  for (int bin = 0; bin < options.mel_bins; ++bin) {
    const auto b = static_cast<float>(bin);
    const float left = mel_low + b * delta, center = mel_low + (b + 1) * delta, right = mel_low + (b + 2) * delta;
    int first = -1, last = -1;
    std::vector<float> weights;
    for (int i = 0; i < fft_bins; ++i) {
      const float mel = MelOf(bin_width * static_cast<float>(i));
      if (mel <= left || mel >= right) continue;
      if (first < 0) first = i;
      last = i;
      weights.push_back(mel <= center ? (mel - left) / (center - left) : (right - mel) / (right - center));
    }
    if (first < 0) {
      Throw<UsageError>(
          "mel-bins = {} is too many at {} Hz with frames of {} ms: filter {} ({:.0f} Hz) holds no point of the "
          "spectrum; "
          "use fewer filters or longer frames",
          options.mel_bins, options.sample_rate_hz, options.frame_length_ms, bin, HzOf(center));
    }
    filters.first.push_back(first);
    filters.count.push_back(last + 1 - first);
    filters.weights.insert(filters.weights.end(), weights.begin(), weights.end());
    centers_hz.push_back(HzOf(center));
  }
}

std::vector<float> CosineTransform(int rows, int cols) {
  std::vector<float> matrix;
  for (int r = 0; r < rows; ++r) {
    const double scale = std::sqrt((r == 0 ? 1.0 : 2.0) / cols);
    for (int c = 0; c < cols; ++c) matrix.push_back(static_cast<float>(scale * std::cos(kPi / cols * (c + 0.5) * r)));
  }
  return matrix;
}

std::vector<float> Lifter(double q, int size) {
  std::vector<float> lifter;
  for (int i = 0; i < size; ++i)
    lifter.push_back(q == 0 ? 1.0f : static_cast<float>(1.0 + 0.5 * q * std::sin(kPi * i / q)));
  return lifter;
}

std::vector<float> EqualLoudness(const std::vector<float>& centers_hz) {
  std::vector<float> loudness;
  for (const float f : centers_hz) {
    const float square = f * f;
    const float sub = square / (square + 1.6e5f);
    loudness.push_back(sub * sub * ((square + 1.44e6f) / (square + 9.61e6f)));
  }
  return loudness;
}

std::vector<float> SpectrumToAutocorrelation(int rows, int points) {
  std::vector<float> matrix;
  const double angle = kPi / (points - 1), scale = 1.0 / (2.0 * (points - 1));
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < points; ++c) {
      const double weight = c == 0 || c == points - 1 ? 1.0 : 2.0;
      matrix.push_back(static_cast<float>(weight * scale * std::cos(angle * r * c)));
    }
  }
  return matrix;
}

}  // namespace antiphon::feat
