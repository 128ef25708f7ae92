// Natural gradient with parameter averaging (plan/periodic.cc): the plan's devices are as fast as plain SGD makes them,
// and the gradient's own arithmetic comes on top.
#include <algorithm>

#include "optim/online_natural_gradient.h"
#include "parallel/periodic_cost.h"

namespace antiphon::parallel {
namespace {

constexpr double kCombinedModels = 12;  // parts of ten models, and their sum in double
constexpr double kSlowdown = 2;         // of products as narrow as the ranks, beside those of the layers
constexpr double kFewerPasses = 0.6;

// Of a minibatch: the covariances' inverses are multiplied by the factors or by the gradient, whichever is less, and in
// every `update-period`-th minibatch the covariances move on (optim/online_natural_gradient.h).
double NaturalGradientFlops(double in, double out, double frames) {
  const optim::NaturalGradientOptions options;
  const double input_rank = std::min<double>(options.input_rank, (in + 1) / 2);
  const double output_rank = std::min<double>(options.output_rank, (out + 1) / 2);
  const double values = input_rank * in + output_rank * out;
  const double multiply = 4 * std::min(frames * values, (input_rank + output_rank) * in * out);
  const double correlate = 4 * frames * values;
  const double rotate = 4 * (input_rank * input_rank * in + output_rank * output_rank * out);
  return kSlowdown * (multiply + (correlate + rotate) / options.update_period);
}

class NaturalGradientAveragingCost : public PeriodicCost {
 public:
  NaturalGradientAveragingCost() : PeriodicCost(3) {}
  plan::Played Play(const plan::Setting& setting) const override {
    plan::CostNetwork network = setting.network;
    const double frames = setting.plan.minibatch;
    for (plan::CostLayer& layer : network.layers) {
      const double in = layer.weights / layer.out_dim;
      layer.backward_flops += NaturalGradientFlops(in, layer.out_dim, frames) / frames;
    }
    return plan::PlayPeriodic({network, setting.plan, setting.cluster});
  }
  std::vector<plan::PassesRule> PassesRules() const override {
    return {
        {"natural-gradient-averaging", "natural-gradient-averaging",
         "0.6 of the passes of plain SGD; as ssgd for the frames of a step of all workers",
         "here, to an accuracy that plain SGD has after three passes: 0.56 of them with rates that fall, 0.61 with a "
         "constant one, on 2 workers. What both learn in the end is the same",
         "averaging by the natural gradient"}};
  }
  std::string PassesKey(const plan::CostPlan&) const override { return "natural-gradient-averaging"; }
  double PassesFactor(const plan::CostPlan& plan, const plan::CostResult& result) const override {
    return kFewerPasses * CostMethod::PassesFactor(plan, result);
  }
  double Copies(const plan::CostNetwork& network, const plan::CostPlan& plan) const override {
    return plan.workers == 1 ? 0 : PeriodicCost::Copies(network, plan) + kCombinedModels / plan.workers;
  }
};

REGISTER_COMPONENT(plan::CostMethodRegistry, "natural-gradient-averaging",
                   [] { return std::make_unique<NaturalGradientAveragingCost>(); });

}  // namespace
}  // namespace antiphon::parallel
