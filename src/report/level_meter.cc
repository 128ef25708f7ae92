#include "report/level_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace antiphon::report {
namespace {

constexpr double kFullScale = 32768.0;
constexpr double kQuietestDb = -60.0;
constexpr int kBarWidth = 24;
constexpr int kTooLoud = 32700;
constexpr int kZeroWindows = 20;  // so many tenths of a second of zeros are no pause
constexpr std::string_view kClearLine = "\r\033[K";

double Decibels(double height) { return 20 * std::log10(std::max(height, 0.5) / kFullScale); }

int Columns(double decibels) {
  return std::clamp(static_cast<int>(std::lround((1 - decibels / kQuietestDb) * kBarWidth)), 0, kBarWidth);
}

}  // namespace

LevelMeter::LevelMeter(int rate_hz, ProgressSink sink) : window_(std::max(1, rate_hz / 10)), sink_(std::move(sink)) {}

LevelMeter::~LevelMeter() { Clear(); }

void LevelMeter::Accept(std::span<const int16_t> samples) {
  if (!sink_.terminal) return;
  for (const int16_t sample : samples) {
    const int height = std::abs(int{sample});
    energy_ += static_cast<double>(height) * height;
    highest_ = std::max(highest_, height);
    zeros_ = height == 0 ? zeros_ + 1 : 0;
    if (++count_ == window_) Draw();
  }
}

void LevelMeter::Clear() {
  if (std::exchange(is_drawn_, false)) sink_.write(kClearLine);
}

void LevelMeter::Draw() {
  sink_.write(std::string(kClearLine) + Line());
  is_drawn_ = true;
  count_ = 0;
  energy_ = 0;
  highest_ = 0;
}

std::string LevelMeter::Line() const {
  const double mean = Decibels(std::sqrt(energy_ / static_cast<double>(count_))), peak = Decibels(highest_);
  std::string bar(static_cast<size_t>(Columns(mean)), '#');
  bar.resize(kBarWidth, ' ');
  if (const int column = Columns(peak); column > 0) bar[static_cast<size_t>(column) - 1] = '|';
  const char* const word = zeros_ >= kZeroWindows * window_ ? "  nothing but zeros: is it muted?"
                           : highest_ >= kTooLoud           ? "  too loud"
                                                            : "";
  return fmt::format("microphone {:3.0f} dB [{}] {:3.0f} dB peak{}", mean, bar, peak, word);
}

}  // namespace antiphon::report
