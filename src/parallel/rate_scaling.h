// How the learning rate grows with the number of workers, and how slowly it is brought there.
//
// The configured rate is that of one worker's minibatch. A step that uses k minibatches at once ("linear") may be k
// times as long, since k small steps would have gone as far; √k ("sqrt") keeps the noise of the steps the same instead.
// "auto" is linear up to 1024 frames per step, which costs nothing (docs/results/parallel-training.md),
// then stands still until √k is more. The factor rises linearly from 1 over the first `warmup-epochs`, when large steps
// do harm. Threads: a value. Errors: UsageError by ReadOptions. Source: Goyal et al., arXiv 1706.02677, 2017;
// Krizhevsky, arXiv 1404.5997, 2014 (square root).
#pragma once

#include <cstdint>
#include <string>

#include "base/options.h"
#include "parallel/strategy.h"

namespace antiphon::parallel {

struct RateScalingOptions {
  std::string rate_scaling = "auto";
  double warmup_epochs = 0.5;
  template <class V>
  void Visit(V& v) {
    v("rate-scaling", rate_scaling, OneOf{{"auto", "linear", "sqrt", "none"}},
      "factor on the learning rate for k minibatches per step: auto (k up to 1024 frames, then the root of k), k, the "
      "root of k, or 1");
    v("warmup-epochs", warmup_epochs, Range{0, 1e6}, "epochs over which that factor rises from 1");
  }
};

/// The factor for steps of so many minibatches.
double RateFactor(const std::string& rate_scaling, int minibatches, const Plan& plan);

class RateScaling {
 public:
  /// `minibatches`: how many go into one step of the common model.
  RateScaling(const RateScalingOptions& options, int minibatches, const Plan& plan);

  /// For the worker's step `step`, counted from 0 over the whole run.
  double Factor(int64_t step) const;
  std::string Describe() const;

 private:
  double target_;
  int64_t warmup_steps_;
  std::string description_;
};

}  // namespace antiphon::parallel
