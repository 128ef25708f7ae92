// A layer that has no kernel of its own here, run as in training but for its precision: fp32.
#pragma once

#include "infer/plan_step.h"

namespace antiphon::infer {

class LayerStep : public PlanStep {
 public:
  explicit LayerStep(const StepArgs& args);
  void Run(const Rows& in, const Rows& out, std::byte* scratch) const override;
  bool needs_network() const override { return true; }
  StepInfo Info() const override;

 private:
  const nn::Layer& layer_;
  std::string name_;
  std::string type_;
  int64_t parameters_ = 0;
};

}  // namespace antiphon::infer
