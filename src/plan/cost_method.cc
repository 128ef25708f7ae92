#include "plan/cost_method.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/suggest.h"

namespace antiphon::plan {
namespace {

constexpr double kSafeStep = 1024;  // frames
constexpr double kLargestStep = 16384;
constexpr double kStepSurcharge = 0.2;

}  // namespace

double CostMethod::MemoryBytes(const CostNetwork& network, const CostPlan& plan) const {
  return (1 + Copies(network, plan) + plan.optimizer_values) * 4 * network.weights() + ActivationBytes(network, plan);
}

double CostMethod::PassesFactor(const CostPlan& plan, const CostResult&) const {
  return LargeStepFactor(StepFrames(plan, RanksPerReplica(plan)));
}

std::string CostMethod::TooFar(const CostPlan&, const CostResult&) const { return ""; }

std::vector<CostPlan> CostMethod::Variants(const CostPlan&, int, double) const { return {}; }

std::vector<int> CostMethod::WorkerCounts(const CostPlan&, int devices) const { return MultiplesUpTo(1, devices); }

std::string CostMethod::Details(const CostNetwork&, const CostPlan&) const { return ""; }

std::string CostMethod::Keys(const CostNetwork&, const CostPlan&) const { return ""; }

const CostMethod& MethodOf(const CostPlan& plan) {
  static const auto methods = [] {
    std::map<std::string, std::unique_ptr<CostMethod>> all;
    for (const std::string& name : CostMethodRegistry::Get().Names())
      all[name] = CostMethodRegistry::Get().Create(name);
    return all;
  }();
  const auto method = methods.find(plan.method);
  if (method == methods.end()) {
    throw UsageError(UnknownNameMessage("method", plan.method, CostMethodRegistry::Get().Names()));
  }
  return *method->second;
}

void RequireGroups(const CostPlan& plan) {
  if (plan.group >= 1 && plan.workers % plan.group == 0) return;
  Throw<UsageError>("{} workers cannot form groups of {}: take a multiple", plan.workers, plan.group);
}

double ActivationBytes(const CostNetwork& network, const CostPlan& plan) {
  double values = network.in_dim;
  for (const CostLayer& layer : network.layers) values += 2 * layer.out_dim;  // outputs and derivatives
  return 4 * values * plan.minibatch;
}

double StepFrames(const CostPlan& plan, int ranks_per_replica) {
  const int replicas = plan.workers / ranks_per_replica;
  return static_cast<double>(replicas) * plan.minibatch * plan.accumulate;
}

double LargeStepFactor(double step_frames) { return 1 + kStepSurcharge * Doublings(step_frames, kSafeStep); }

std::string StepTooLarge(double step_frames, int minibatch) {
  if (step_frames <= std::max<double>(kLargestStep, minibatch)) return "";
  return fmt::format("a step of {:.0f} frames, beyond {:.0f}", step_frames, kLargestStep);
}

double Doublings(double value, double from) { return std::max(0.0, std::log2(value / from)); }

std::vector<int> MultiplesUpTo(int unit, int devices) {
  std::vector<int> counts;
  for (int n = unit == 1 ? 2 : unit; n < devices; n *= 2) counts.push_back(n);
  const int all = devices / unit * unit;
  if (all > 1 && (counts.empty() || counts.back() != all)) counts.push_back(all);
  return counts;
}

}  // namespace antiphon::plan
