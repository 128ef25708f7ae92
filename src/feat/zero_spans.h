// Where audio is zero but for a constant offset: muted, or not connected (8 bits are often muted at −1, A-law at 8 of
// 32768). What is always the same is like the mean of speech when the mean is taken out, so that any network hears
// something there; whoever recognises asks here before they look for words.
//
// Threads: one per object. Errors: none.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace antiphon::feat {

/// What is said of speech that Cover covers, in place of words.
inline constexpr char kAllZeroRemark[] = "all samples are the same: no words were looked for";

class ZeroSpans {
 public:
  explicit ZeroSpans(int sample_rate_hz) : rate_hz_(sample_rate_hz) {}
  /// From what Runs() gave.
  explicit ZeroSpans(std::vector<std::pair<double, double>> runs) : ended_(std::move(runs)) {}

  /// More samples.
  void Accept(std::span<const float> samples);
  /// Whether all samples from one time to another are the same, in a run of a tenth of a second or more; `slack_s`, a
  /// frame's shift, is left out of account at the end.
  bool Cover(double begin_s, double end_s, double slack_s) const;
  /// Begin and end in seconds of all such runs.
  std::vector<std::pair<double, double>> Runs() const;
  /// Times before this one are not asked for any more.
  void ForgetBefore(double begin_s);

 private:
  std::pair<double, double> Open() const;

  int rate_hz_ = 1;
  int64_t samples_ = 0;
  int64_t open_ = 0;  // first sample of the run at the end
  float value_ = 0;   // of its samples
  std::vector<std::pair<double, double>> ended_;
};

}  // namespace antiphon::feat
