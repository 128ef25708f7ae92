// Cost of methods whose workers learn alone for plan.sync_period steps and then exchange whole models.
//
// Threads: immutable.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "plan/cost_method.h"

namespace antiphon::parallel {

class PeriodicCost : public plan::CostMethod {
 public:
  /// `copies`: of the model, beside the weights of a worker that has others.
  explicit PeriodicCost(double copies) : copies_(copies) {}
  plan::Played Play(const plan::Setting& setting) const override { return PlayPeriodic(setting); }
  double Copies(const plan::CostNetwork&, const plan::CostPlan& plan) const override {
    return plan.workers == 1 ? 0 : copies_;
  }
  bool IsPeriodic() const override { return true; }
  std::string Details(const plan::CostNetwork&, const plan::CostPlan& plan) const override {
    return fmt::format(", exchange every {} steps", plan.sync_period);
  }
  std::string Keys(const plan::CostNetwork&, const plan::CostPlan& plan) const override {
    return fmt::format("sync-period = {}\n", plan.sync_period);
  }

 protected:
  static std::vector<plan::CostPlan> WithPeriods(const plan::CostPlan& base) {
    std::vector<plan::CostPlan> plans;
    for (const int period : {10, 40, 160, 400}) {
      plans.push_back(base);
      plans.back().sync_period = period;
    }
    return plans;
  }

 private:
  double copies_;
};

}  // namespace antiphon::parallel
