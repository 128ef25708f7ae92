// From samples to feature frames, as `antiphon features` makes them.
//
//   const antiphon::FrontEnd front_end("kind = 'fbank'\nmel-bins = 80\ndither = 0.0");
//   const std::vector<float> frames = front_end.Compute(samples, 16000);   // frames × front_end.dim()
//
// Units: samples as floats in −1 … 1; features in natural logarithms. Shapes: frames row by row, one frame per row.
// Ownership: copies of a FrontEnd share all, and moving one copies it.
// Threads: a FrontEnd never changes; any number of threads may use one.
// Errors: antiphon::Error (antiphon/error.h): kUsage for options that cannot be, kInput for samples or a rate that
// cannot be, kCancelled.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "antiphon/export.h"

namespace antiphon {

class ANTIPHON_API FrontEnd {
 public:
  /// TOML with options of `antiphon features` (kind, sample-rate, mel-bins …, without flags for files), such as a
  /// Model's features(); what it does not name has the command's defaults, 40 cepstra with dither.
  explicit FrontEnd(const std::string& options = "");
  /// Kaldi's defaults of one kind ("fbank", "mfcc", "plp"), without dither; `options` over them.
  static FrontEnd Standard(const std::string& kind, int sample_rate_hz = 16000, const std::string& options = "");
  ~FrontEnd();
  FrontEnd(const FrontEnd&);
  FrontEnd& operator=(const FrontEnd&);

  /// Values per frame.
  int dim() const;
  int sample_rate_hz() const;
  double frame_shift_s() const;
  /// All options, as TOML.
  std::string options() const;

  /// One utterance; other rates than sample_rate_hz() are converted. `utt_id` selects the dither, if there is any.
  /// Returns no frames for what is shorter than one. Refuses samples that are not finite.
  std::vector<float> Compute(std::span<const float> samples, int sample_rate_hz, const std::string& utt_id = "") const;

 private:
  struct Impl;
  explicit FrontEnd(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

}  // namespace antiphon
