#include <kissfft/kiss_fftr.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "feat/augment.h"

namespace antiphon::feat {
namespace {

using Plan = std::unique_ptr<std::remove_pointer_t<kiss_fftr_cfg>, void (*)(void*)>;

Plan MakePlan(int size, bool inverse) {
  return {kiss_fftr_alloc(size, inverse ? 1 : 0, nullptr, nullptr), [](void* p) { kiss_fftr_free(p); }};
}

double Power(std::span<const float> x) {
  double sum = 0.0;
  for (const float v : x) sum += static_cast<double>(v) * v;
  return sum;
}

// Overlap-add: blocks as long as the response.
std::vector<float> Convolve(std::span<const float> x, std::span<const float> h) {
  const auto fft = static_cast<size_t>(std::max<uint64_t>(512, std::bit_ceil(2 * h.size())));
  const size_t step = fft - h.size() + 1, bins = fft / 2 + 1;
  const Plan forward = MakePlan(static_cast<int>(fft), false), backward = MakePlan(static_cast<int>(fft), true);
  std::vector<float> time(fft), out(x.size() + fft);
  std::vector<kiss_fft_cpx> response(bins), spectrum(bins);
  std::copy(h.begin(), h.end(), time.begin());
  kiss_fftr(forward.get(), time.data(), response.data());
  for (size_t at = 0; at < x.size(); at += step) {
    const size_t count = std::min(step, x.size() - at);
    std::fill(time.begin(), time.end(), 0.0f);
    std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(at), count, time.begin());
    kiss_fftr(forward.get(), time.data(), spectrum.data());
    for (size_t k = 0; k < bins; ++k) {
      const kiss_fft_cpx a = spectrum[k], b = response[k];
      spectrum[k].r = a.r * b.r - a.i * b.i;
      spectrum[k].i = a.r * b.i + a.i * b.r;
    }
    kiss_fftri(backward.get(), spectrum.data(), time.data());
    for (size_t i = 0; i < fft; ++i) out[at + i] += time[i] / static_cast<float>(fft);
  }
  return out;
}

}  // namespace

std::vector<float> MakeRoom(double reverb_time_s, int sample_rate_hz, Rng& rng) {
  if (!(reverb_time_s > 0) || sample_rate_hz <= 0)
    Throw<UsageError>("a room of {} s at {} Hz", reverb_time_s, sample_rate_hz);
  constexpr int kEarlyReflections = 6;
  constexpr double kFirstDelayS = 0.002, kLastDelayS = 0.04;
  const auto size = static_cast<size_t>(std::max(2.0, reverb_time_s * sample_rate_hz));
  std::vector<float> response(size, 0.0f);
  // 60 dB of decay: amplitude falls by e^-6.9.
  const auto decay = [&](double t_s) { return std::exp(-6.908 * t_s / reverb_time_s); };
  const double late_start_s = 0.02;
  double late_power = 0.0;
  for (size_t i = static_cast<size_t>(late_start_s * sample_rate_hz); i < size; ++i) {
    const double x = rng.Normal() * decay(static_cast<double>(i) / sample_rate_hz);
    response[i] = static_cast<float>(x);
    late_power += x * x;
  }
  // The reverberant part is as strong as the direct sound at the critical distance; speakers are nearer.
  const double distance = rng.Uniform(0.2, 1.0);
  for (float& x : response) x *= static_cast<float>(late_power > 0 ? distance / std::sqrt(late_power) : 0.0);
  for (int k = 0; k < kEarlyReflections; ++k) {
    const double delay_s = rng.Uniform(kFirstDelayS, kLastDelayS);
    const double height = rng.Uniform(0.2, 0.7) * distance * decay(delay_s) * (rng.Uniform() < 0.5 ? -1.0 : 1.0);
    const auto at = static_cast<size_t>(delay_s * sample_rate_hz);
    if (at > 0 && at < size) response[at] += static_cast<float>(height);
  }
  response[0] = 1.0f;
  return response;
}

void AddReverb(std::vector<float>& samples, std::span<const float> response) {
  if (samples.empty() || response.empty()) return;
  const auto peak = static_cast<size_t>(
      std::max_element(response.begin(), response.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); }) -
      response.begin());
  const std::vector<float> wet = Convolve(samples, response);
  const double before = Power(samples);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = wet[i + std::min(peak, wet.size() - samples.size())];
  const double after = Power(samples);
  if (after > 0) {
    for (float& x : samples) x *= static_cast<float>(std::sqrt(before / after));
  }
}

}  // namespace antiphon::feat
