// The range that 8 bits are to cover, from the values that were seen.
//
// Values go into a histogram of 2048 bins whose width doubles when something larger comes, so that any number of frames
// is one pass in fixed memory.
//   minmax      all that was seen
//   percentile  all but the share 1 − percentile of the values at each end
//   kl          cut where the histogram, written in 128 levels, tells least from the cut histogram (KL); for ranges
//               that begin at 0. With negative values both ends are cut by the same factor.
// Source: algorithms reference 2.6; the KL rule is NVIDIA's (Migacz, 8-bit inference with TensorRT, 2017).
#pragma once

#include <string>
#include <vector>

#include "math/matrix.h"
#include "nn/quantize.h"

namespace antiphon::compress {

class Histogram {
 public:
  void Add(ConstMatrixView values);
  double count() const { return count_; }

  /// `rule` is "minmax", "percentile" or "kl"; `percentile` from 0.5 to 1.
  nn::InputRange Range(const std::string& rule, double percentile) const;

 private:
  static constexpr int kBins = 2048;  // on each side of 0
  void Widen(float largest);
  double Quantile(const std::vector<double>& side, double largest, double percentile) const;
  double BestCut(const std::vector<double>& side) const;

  double width_ = 0;  // of a bin
  double count_ = 0;
  float low_ = 0;
  float high_ = 0;
  std::vector<double> below_ = std::vector<double>(kBins, 0.0);  // |x| of negative values
  std::vector<double> above_ = std::vector<double>(kBins, 0.0);
};

}  // namespace antiphon::compress
