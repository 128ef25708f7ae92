#include "parallel/rate_scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace antiphon::parallel {

namespace {

constexpr double kFramesOfLinearSteps = 1024;
constexpr double kUsualMinibatch = 256;  // where frames are not known

}  // namespace

double RateFactor(const std::string& rate_scaling, int minibatches, const Plan& plan) {
  const double k = minibatches;
  if (rate_scaling == "linear") return k;
  if (rate_scaling == "sqrt") return std::sqrt(k);
  if (rate_scaling == "none") return 1;
  const double frames = plan.minibatch_frames > 0 ? plan.minibatch_frames : kUsualMinibatch;
  return std::max(std::sqrt(k), std::min(k, kFramesOfLinearSteps / frames));
}

RateScaling::RateScaling(const RateScalingOptions& options, int minibatches, const Plan& plan)
    : target_(RateFactor(options.rate_scaling, minibatches, plan)),
      warmup_steps_(target_ == 1.0 ? 0
                                   : std::llround(options.warmup_epochs * static_cast<double>(plan.steps_per_epoch))) {
  description_ = fmt::format("learning rate × {:.4g} ({} over {} minibatches per step)", target_, options.rate_scaling,
                             minibatches);
  if (warmup_steps_ > 0) description_ += fmt::format(", reached after {} steps", warmup_steps_);
}

double RateScaling::Factor(int64_t step) const {
  if (step >= warmup_steps_) return target_;
  return 1.0 + (target_ - 1.0) * static_cast<double>(step) / static_cast<double>(warmup_steps_);
}

std::string RateScaling::Describe() const { return description_; }

}  // namespace antiphon::parallel
