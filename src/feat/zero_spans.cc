#include "feat/zero_spans.h"

#include <algorithm>

namespace antiphon::feat {
namespace {

constexpr double kShortestRunS = 0.1;

bool IsLong(const std::pair<double, double>& run) { return run.second - run.first >= kShortestRunS; }

}  // namespace

void ZeroSpans::Accept(std::span<const float> samples) {
  while (!samples.empty()) {
    const bool begins = samples_ == open_;
    if (begins) value_ = samples.front();
    // Behind the first of a run, since what is no number is not even the same as itself.
    const auto other =
        std::find_if(samples.begin() + (begins ? 1 : 0), samples.end(), [&](float x) { return x != value_; });
    samples_ += other - samples.begin();
    if (other == samples.end()) return;
    if (const auto run = Open(); IsLong(run)) ended_.push_back(run);
    open_ = samples_;
    samples = samples.subspan(static_cast<size_t>(other - samples.begin()));
  }
}

std::pair<double, double> ZeroSpans::Open() const {
  return {static_cast<double>(open_) / rate_hz_, static_cast<double>(samples_) / rate_hz_};
}

bool ZeroSpans::Cover(double begin_s, double end_s, double slack_s) const {
  const auto covers = [&](const std::pair<double, double>& run) {
    return run.first <= begin_s && end_s <= run.second + slack_s;
  };
  return begin_s < end_s && ((IsLong(Open()) && covers(Open())) || std::any_of(ended_.begin(), ended_.end(), covers));
}

std::vector<std::pair<double, double>> ZeroSpans::Runs() const {
  std::vector<std::pair<double, double>> runs = ended_;
  if (const auto run = Open(); IsLong(run)) runs.push_back(run);
  return runs;
}

void ZeroSpans::ForgetBefore(double begin_s) {
  std::erase_if(ended_, [&](const auto& run) { return run.second < begin_s; });
}

}  // namespace antiphon::feat
