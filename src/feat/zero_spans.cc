#include "feat/zero_spans.h"

#include <algorithm>

namespace antiphon::feat {
namespace {

constexpr double kShortestRunS = 0.1;

}  // namespace

void ZeroSpans::Accept(std::span<const float> samples) {
  while (!samples.empty()) {
    const auto sound = std::find_if(samples.begin(), samples.end(), [](float x) { return x != 0; });
    samples_ += sound - samples.begin();
    if (sound == samples.end()) return;
    if (const auto run = Open(); run.second - run.first >= kShortestRunS) ended_.push_back(run);
    const auto zero = std::find(sound, samples.end(), 0.0F);
    samples_ += zero - sound;
    open_ = samples_;
    samples = samples.subspan(static_cast<size_t>(zero - samples.begin()));
  }
}

std::pair<double, double> ZeroSpans::Open() const {
  return {static_cast<double>(open_) / rate_hz_, static_cast<double>(samples_) / rate_hz_};
}

bool ZeroSpans::Cover(double begin_s, double end_s, double slack_s) const {
  const auto covers = [&](const std::pair<double, double>& run) {
    return run.first <= begin_s && end_s <= run.second + slack_s;
  };
  return begin_s < end_s && (covers(Open()) || std::any_of(ended_.begin(), ended_.end(), covers));
}

std::vector<std::pair<double, double>> ZeroSpans::Runs() const {
  std::vector<std::pair<double, double>> runs = ended_;
  if (const auto run = Open(); run.second - run.first >= kShortestRunS) runs.push_back(run);
  return runs;
}

void ZeroSpans::ForgetBefore(double begin_s) {
  std::erase_if(ended_, [&](const auto& run) { return run.second < begin_s; });
}

}  // namespace antiphon::feat
