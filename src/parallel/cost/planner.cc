#include "parallel/cost/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"

namespace antiphon::parallel {
namespace {

constexpr double kLargestMinibatch = 16384;  // frames of all workers in one step
constexpr double kLargestStaleness = 16;
constexpr int kLongestPipeline = 8;
constexpr int kFewestPeriods = 20;  // per epoch and worker
constexpr int kFewestSteps = 20;    // per epoch

// What is tried of a method, but for the number of workers.
struct Variant {
  std::string name;
  CostPlan plan;
};

std::vector<Variant> Variants(const PlanRequest& request) {
  CostPlan base;
  base.minibatch = request.minibatch;
  std::vector<Variant> variants;
  const auto add = [&](std::string name, const char* method, auto&& change) {
    CostPlan plan = base;
    plan.method = method;
    change(plan);
    variants.push_back({std::move(name), plan});
  };
  add("serial", "serial", [](CostPlan&) {});
  add("ssgd", "ssgd", [](CostPlan&) {});
  add("ssgd, halves", "ssgd", [&](CostPlan& p) {
    p.bits_per_value = 16;
    p.codec_gb_s = request.codec_gb_s;
  });
  add("ssgd, 1-bit", "ssgd", [&](CostPlan& p) {
    p.bits_per_value = 1.05;
    p.codec_gb_s = request.codec_gb_s;
  });
  for (const int period : {10, 40, 160, 400}) {
    add("averaging", "averaging", [&](CostPlan& p) { p.sync_period = period; });
    add("bmuf", "bmuf", [&](CostPlan& p) { p.sync_period = period; });
  }
  for (const int accumulate : {1, 4}) {
    add("asgd", "asgd", [&](CostPlan& p) { p.accumulate = accumulate; });
  }
  add("pipeline", "pipeline", [](CostPlan&) {});
  for (const int group : {2, 4, 8}) {
    add("model-parallel", "model-parallel", [&](CostPlan& p) { p.group = group; });
  }
  return variants;
}

std::vector<int> WorkerCounts(const std::string& method, int devices) {
  if (method == "serial") return {1};
  std::vector<int> counts;
  for (int n = 2; n < devices; n *= 2) counts.push_back(n);
  if (devices > 1) counts.push_back(devices);
  return counts;
}

// Why a plan is no good although it could be run; empty if it is.
std::string Objection(const PlanRequest& request, const CostPlan& plan, const CostResult& result) {
  const double per_worker = request.frames / plan.workers;
  const bool pipeline = plan.method == "pipeline";  // its devices share each minibatch
  if (!pipeline && per_worker < static_cast<double>(kFewestSteps) * plan.minibatch * plan.accumulate) {
    return fmt::format("{} workers would have {:.0f} frames each, fewer than {} steps per epoch", plan.workers,
                       per_worker, kFewestSteps);
  }
  const bool periodic = plan.method == "averaging" || plan.method == "bmuf";
  if (periodic && per_worker < static_cast<double>(kFewestPeriods) * plan.sync_period * plan.minibatch) {
    return fmt::format("fewer than {} exchanges per epoch with {} workers and a period of {} steps", kFewestPeriods,
                       plan.workers, plan.sync_period);
  }
  const double together = static_cast<double>(plan.workers) * plan.minibatch * plan.accumulate;
  if (plan.method == "ssgd" && together > std::max<double>(kLargestMinibatch, plan.minibatch)) {
    return fmt::format("a step of {:.0f} frames, beyond {:.0f}", together, kLargestMinibatch);
  }
  if (plan.method == "asgd" && result.staleness > kLargestStaleness) {
    return fmt::format("gradients {:.0f} updates old with {} workers, beyond {:.0f}", result.staleness, plan.workers,
                       kLargestStaleness);
  }
  if (pipeline && plan.workers > kLongestPipeline) {
    return fmt::format("a pipeline of {} devices, beyond {}: its lowest layers would be too stale", plan.workers,
                       kLongestPipeline);
  }
  return "";
}

bool Better(const PlanRequest& request, const Candidate& a, const Candidate& b) {
  const auto key = [&](const Candidate& c) {
    return request.prefer_price ? std::pair(c.price, c.hours) : std::pair(c.hours, c.price);
  };
  return key(a) < key(b);
}

std::string Explain(const Candidate& best, const Candidate& other) {
  if (other.name.empty()) return "no other method can do it here";
  std::string text = fmt::format("{:.3g} h against {:.3g} h of '{}' on {} device(s): ", best.hours, other.hours,
                                 other.name, other.result.ranks);
  text += fmt::format("{:.0f} against {:.0f} frames/s (devices compute {:.0f} % against {:.0f} % of the time), ",
                      best.result.frames_per_second, other.result.frames_per_second, 100 * best.result.compute_share,
                      100 * other.result.compute_share);
  text += fmt::format("{:.2f} × against {:.2f} × the passes of serial training", best.passes, other.passes);
  return text;
}

void CheckRequest(const PlanRequest& request) {
  if (request.dims.size() < 2) throw UsageError("layers must name sizes of input and output at least: \"440,1000\"");
  if (request.devices < 1) throw UsageError("devices must be 1 at least");
  if (!(request.frames >= request.minibatch)) {
    Throw<UsageError>("{:.0f} frames of data are less than one minibatch of {}", request.frames, request.minibatch);
  }
}

std::optional<Candidate> Try(const PlanRequest& request, const CostNetwork& network, const Variant& variant,
                             int workers, std::string& objection) {
  Candidate c;
  c.name = variant.name;
  c.plan = variant.plan;
  c.plan.workers = workers;
  if (c.plan.method == "model-parallel" && workers % c.plan.group != 0) return std::nullopt;
  try {
    c.result = SimulateCost(network, c.plan, request.cluster);
  } catch (const UsageError& e) {
    objection = e.message();
    return std::nullopt;
  }
  objection = Objection(request, c.plan, c.result);
  if (!objection.empty()) return std::nullopt;
  c.passes = PassesFactor(c.plan, c.result);
  c.hours = request.frames * request.epochs * c.passes / c.result.frames_per_second / 3600;
  c.price = c.hours * c.result.ranks * request.price_per_device_hour;
  if (request.largest_price > 0 && c.price > request.largest_price) {
    objection = fmt::format("costs {:.2f}, more than {:.2f}", c.price, request.largest_price);
    return std::nullopt;
  }
  return c;
}

}  // namespace

const std::vector<std::string> kPassesRules = {
    "ssgd: none up to 2048 frames per step of all workers, 10 % more per doubling beyond; refused beyond 16,384; with "
    "1-bit 2 % more",
    "averaging: 5 % more per doubling of workers, and 5 % per doubling of the period beyond 10 steps",
    "bmuf: none up to 16 workers, 3 % more per doubling beyond, and 2 % per doubling of the period beyond 40 steps",
    "asgd: 1 % more per update of staleness; refused beyond 16",
    "pipeline: 1 % more per device; refused beyond 8 devices",
    "model-parallel: as ssgd with one worker per group",
};

double PassesFactor(const CostPlan& plan, const CostResult& result) {
  const auto doublings = [](double value, double from) { return std::max(0.0, std::log2(value / from)); };
  const double minibatch = static_cast<double>(plan.minibatch) * plan.accumulate;
  if (plan.workers == 1) return 1;
  if (plan.method == "ssgd") {
    return (1 + 0.1 * doublings(plan.workers * minibatch, 2048)) * (plan.bits_per_value < 4 ? 1.02 : 1.0);
  }
  if (plan.method == "model-parallel") {
    return 1 + 0.1 * doublings(minibatch * plan.workers / plan.group, 2048);
  }
  if (plan.method == "averaging") return 1 + 0.05 * doublings(plan.workers, 1) + 0.05 * doublings(plan.sync_period, 10);
  if (plan.method == "bmuf") return 1 + 0.03 * doublings(plan.workers, 16) + 0.02 * doublings(plan.sync_period, 40);
  if (plan.method == "asgd") return 1 + 0.01 * result.staleness + 0.1 * doublings(minibatch, 2048);
  return 1 + 0.01 * plan.workers;  // pipeline
}

Recommendation Recommend(const PlanRequest& request) {
  CheckRequest(request);
  const CostNetwork network(request.dims);
  std::map<std::string, Candidate> best;  // by method
  std::map<std::string, std::string> objections;
  for (const Variant& variant : Variants(request)) {
    for (const int workers : WorkerCounts(variant.plan.method, request.devices)) {
      std::string objection;
      const std::optional<Candidate> candidate = Try(request, network, variant, workers, objection);
      if (!objection.empty()) objections[variant.name] = objection;
      if (!candidate) continue;
      const auto found = best.find(variant.name);
      if (found == best.end() || Better(request, *candidate, found->second)) best[variant.name] = *candidate;
    }
  }
  Recommendation r;
  for (const auto& [name, objection] : objections) {
    if (best.find(name) == best.end()) r.refused.push_back({name, objection});
  }
  if (best.empty()) {
    std::string reasons;
    for (const Refusal& refusal : r.refused) reasons += fmt::format("\n  {}: {}", refusal.name, refusal.reason);
    Throw<UsageError>("no method can train this here:{}", reasons);
  }
  for (auto& [name, candidate] : best) r.others.push_back(std::move(candidate));
  std::stable_sort(r.others.begin(), r.others.end(),
                   [&](const Candidate& a, const Candidate& b) { return Better(request, a, b); });
  r.best = r.others.front();
  r.others.erase(r.others.begin());
  const auto second = std::find_if(r.others.begin(), r.others.end(),
                                   [&](const Candidate& c) { return c.plan.method != r.best.plan.method; });
  if (second != r.others.end()) {
    r.runner_up = *second;
    r.others.erase(second);
  }
  r.why = Explain(r.best, r.runner_up);
  return r;
}

}  // namespace antiphon::parallel
