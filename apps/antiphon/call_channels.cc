#include "call_channels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/cancel.h"
#include "feat/audio.h"

namespace antiphon::app {
namespace {

// Whether two channels are those of a call: both have sound, and not the same. As soon as a minute says so, no more is
// read; one that is silent or alike for so long may still differ.
bool Differ(const std::string& file) {
  constexpr double kOneScene = 0.5;  // correlation
  constexpr double kPeriodSeconds = 60.0;
  feat::AudioReader left(file, {.channel = 0}), right(file, {.channel = 1});
  const auto period = static_cast<int64_t>(kPeriodSeconds * left.sample_rate_hz());
  double xx = 0, yy = 0, xy = 0;
  const auto differ = [&] { return xx > 0 && yy > 0 && xy < kOneScene * std::sqrt(xx * yy); };
  int64_t read = 0;
  for (std::vector<float> x, y; left.Read(x) && right.Read(y);) {
    const int64_t before = read / period;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      xx += double{x[i]} * x[i];
      yy += double{y[i]} * y[i];
      xy += double{x[i]} * y[i];
    }
    read += std::ssize(x);
    if (read / period == before) continue;
    ThrowIfCancelled("transcribing");
    if (differ()) return true;
  }
  return differ();
}

}  // namespace

std::vector<int> ChannelsOf(const std::string& file, int count, const std::string& wish) {
  const bool each = wish == "each" ? count > 1 : wish == "auto" && count == 2 && Differ(file);
  if (!each) return {-1};
  std::vector<int> channels;
  for (int c = 0; c < count; ++c) channels.push_back(c);
  return channels;
}

}  // namespace antiphon::app
