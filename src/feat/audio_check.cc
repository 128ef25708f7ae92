#include "feat/audio_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace antiphon::feat {
namespace {

constexpr float kEndOfScale = 32767.0F;
// The largest sample of µ-law; A-law's is 32256, and 8 bits reach from −32768 to 32512.
constexpr float kEndOfCodecs = 32124.0F;
constexpr double kTolerableClipping = 1e-3;
constexpr double kQuietDb = -50;

}  // namespace

void AudioCheck::Accept(std::span<const float> samples) {
  samples_ += std::ssize(samples);
  for (const float x : samples) {
    const float magnitude = std::abs(x);
    peak_ = std::max(peak_, magnitude);
    const bool goes_on = x == last_ || (magnitude >= kEndOfScale && std::abs(last_) >= kEndOfScale);
    last_ = x;
    if (magnitude < kEndOfCodecs) {
      run_ = 0;
      continue;
    }
    run_ = goes_on ? run_ + 1 : 1;
    if (run_ >= 2) clipped_ += run_ == 2 ? 2 : 1;
  }
}

double AudioCheck::peak_db() const {
  return 20 * std::log10(std::max(1e-9, static_cast<double>(peak_) / static_cast<double>(kEndOfScale)));
}

bool AudioCheck::silent() const { return peak_db() < kQuietDb; }

double AudioCheck::clipped_share() const {
  return samples_ > 0 ? static_cast<double>(clipped_) / static_cast<double>(samples_) : 0;
}

std::vector<std::string> AudioCheck::Remarks() const {
  std::vector<std::string> remarks;
  if (samples_ == 0) return {"there is no audio"};
  if (peak_ == 0) {
    remarks.push_back("all samples are 0: is the microphone muted?");
  } else if (silent()) {
    remarks.push_back(fmt::format("the audio is very quiet, its peak is {:.0f} dB below full scale", -peak_db()));
  }
  if (clipped_share() > kTolerableClipping) {
    remarks.push_back(fmt::format("{:.1f} % of the samples are clipped: the recording is too loud, which costs words",
                                  100 * clipped_share()));
  }
  return remarks;
}

std::vector<std::string> AudioCheck::Remarks(int rate_hz, int model_hz) const {
  std::vector<std::string> remarks = Remarks();
  if (std::string narrow = NarrowBandRemark(rate_hz, model_hz); !narrow.empty()) {
    remarks.insert(remarks.begin(), std::move(narrow));
  }
  return remarks;
}

std::string NarrowBandRemark(int rate_hz, int model_hz) {
  if (rate_hz >= model_hz) return "";
  return fmt::format(
      "the audio has {} Hz, the model was trained on {} Hz: nothing is heard above {} Hz, and many more words will be "
      "wrong; use a model for {} Hz",
      rate_hz, model_hz, rate_hz / 2, rate_hz);
}

std::string UpsamplingRemark(int rate_hz, int features_hz) {
  if (rate_hz >= features_hz) return "";
  return fmt::format(
      "some of the audio has {} Hz, the features are for {} Hz: nothing is heard above {} Hz; if most has {} Hz, "
      "compute "
      "the features for that (--sample-rate {}, or auto; in recipes sample_rate)",
      rate_hz, features_hz, rate_hz / 2, rate_hz, rate_hz);
}

}  // namespace antiphon::feat
