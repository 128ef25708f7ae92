// What a person should know about audio before they blame the recogniser: clipping, silence, a narrower band than the
// model's.
//
//   AudioCheck check;
//   check.Accept(samples);          // as they come, on the 16-bit scale
//   for (const std::string& remark : check.Remarks()) …
//
// Threads: one per object. Errors: none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace antiphon::feat {

class AudioCheck {
 public:
  void Accept(std::span<const float> samples);
  /// Sentences about what was heard so far; none if all is well.
  std::vector<std::string> Remarks() const;
  /// The same of audio at `rate_hz` that a model of `model_hz` hears: what is said of its band comes first.
  std::vector<std::string> Remarks(int rate_hz, int model_hz) const;
  /// Nothing louder than 50 dB below full scale.
  bool silent() const;
  /// Share of samples that stand at the end of the scale, two or more in a row; where telephones' codecs and 8 bits end
  /// a little earlier, in a row of the same value.
  double clipped_share() const;

 private:
  double peak_db() const;

  int64_t samples_ = 0;
  int64_t clipped_ = 0;
  int run_ = 0;  // samples at the end of the scale up to now
  float last_ = 0;
  float peak_ = 0;
};

/// A sentence if audio of `rate_hz` lacks the upper band that a model of `model_hz` was trained on, else "".
std::string NarrowBandRemark(int rate_hz, int model_hz);
/// The same of features that no model takes yet: their rate can be chosen.
std::string UpsamplingRemark(int rate_hz, int features_hz);

}  // namespace antiphon::feat
