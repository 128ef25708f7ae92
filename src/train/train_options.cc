#include "train/train_options.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace antiphon::train {
namespace {

double ParseNumber(std::string_view text, const std::string& whole) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    Throw<UsageError>("dropout-schedule '{}': '{}' is no number; expected e.g. '0,0@0.2,1@0.5,0'", whole, text);
  }
  return value;
}

}  // namespace

DropoutSchedule::DropoutSchedule(const std::string& text) {
  if (text.empty()) {
    points_ = {{0, 1}};
    return;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view point = std::string_view(text).substr(begin, comma - begin);
    const size_t at = point.find('@');
    const bool last = comma == text.size();
    if (at == std::string_view::npos && !points_.empty() && !last) {
      Throw<UsageError>("dropout-schedule '{}': only the first and last value may stand without '@fraction'", text);
    }
    const double fraction =
        at == std::string_view::npos ? (points_.empty() ? 0.0 : 1.0) : ParseNumber(point.substr(at + 1), text);
    const double value = ParseNumber(point.substr(0, at), text);
    if (fraction < 0 || fraction > 1 || value < 0 || (!points_.empty() && fraction < points_.back().first)) {
      Throw<UsageError>("dropout-schedule '{}': fractions must rise from 0 to 1 and values must not be negative", text);
    }
    points_.emplace_back(fraction, value);
    begin = comma + 1;
  }
}

double DropoutSchedule::Factor(double progress) const {
  if (progress <= points_.front().first) return points_.front().second;
  for (size_t i = 1; i < points_.size(); ++i) {
    const auto& [x0, y0] = points_[i - 1];
    const auto& [x1, y1] = points_[i];
    if (progress <= x1) return x1 > x0 ? y0 + (y1 - y0) * (progress - x0) / (x1 - x0) : y1;
  }
  return points_.back().second;
}

}  // namespace antiphon::train
