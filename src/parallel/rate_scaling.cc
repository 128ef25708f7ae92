#include "parallel/rate_scaling.h"

#include <fmt/format.h>

#include <cmath>

namespace antiphon::parallel {

RateScaling::RateScaling(const RateScalingOptions& options, int minibatches, const Plan& plan)
    : target_(options.rate_scaling == "linear" ? minibatches
              : options.rate_scaling == "sqrt" ? std::sqrt(static_cast<double>(minibatches))
                                               : 1.0),
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
