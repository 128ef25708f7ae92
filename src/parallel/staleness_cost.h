// Cost of methods whose gradients are some updates old when they are added: asynchronous SGD in all its forms.
//
// Threads: immutable.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "plan/cost_method.h"

namespace antiphon::parallel {

class StalenessCost : public plan::CostMethod {
 public:
  /// `title`: of the method, in words.
  StalenessCost(std::string method, std::string title) : method_(std::move(method)), title_(std::move(title)) {}
  std::vector<plan::PassesRule> PassesRules() const override {
    return {
        {method_, method_, "20 % per update that a gradient misses; refused beyond 16",
         "here, to serial training's accuracy: 1.18 times its passes at 1.1 updates (2 workers), 2.6 to 3.4 times at "
         "3 (4 workers) without batch normalisation; with it, after as many passes, 0.1 to 0.4 points less at 1.1, "
         "1.2 to 2.7 at 3, 9 to 17 at 7 (8 workers), 0.3 at 3 with a synchronous epoch first; Zhang 2013: no loss on "
         "4 GPUs",
         title_}};
  }
  std::string PassesKey(const plan::CostPlan&) const override { return method_; }
  double PassesFactor(const plan::CostPlan&, const plan::CostResult& result) const override {
    return 1 + kSurcharge * result.staleness;
  }
  std::string TooFar(const plan::CostPlan& plan, const plan::CostResult& result) const override {
    if (result.staleness <= kLargest) return "";
    return fmt::format("gradients {:.0f} updates old with {} workers, beyond {:.0f}", result.staleness, plan.workers,
                       kLargest);
  }

 private:
  static constexpr double kSurcharge = 0.2;  // per update
  static constexpr double kLargest = 16;

  std::string method_;
  std::string title_;
};

}  // namespace antiphon::parallel
