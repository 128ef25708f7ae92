#include "plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "plan/cost_method.h"

namespace antiphon::plan {
namespace {

constexpr int kFewestPeriods = 20;     // per epoch and worker
constexpr int kFewestSteps = 20;       // per epoch
constexpr double kNearlyAsGood = 1.1;  // the model is no better than that
// Devices encode about as much faster as they compute: 60 GB/s at 2000 GFLOP/s, 4 at 130 (measured).
constexpr double kGflopsPerCodecGbS = 32;

// Why a plan is no good although it could be run; empty if it is.
std::string Objection(const PlanRequest& request, const CostPlan& plan, const CostResult& result) {
  const CostMethod& method = MethodOf(plan);
  const double per_worker = request.frames / plan.workers * method.RanksPerReplica(plan);
  if (per_worker < static_cast<double>(kFewestSteps) * plan.minibatch * plan.accumulate) {
    return fmt::format("{} workers would have {:.0f} frames each, fewer than {} steps per epoch", plan.workers,
                       per_worker, kFewestSteps);
  }
  if (method.IsPeriodic() && per_worker < static_cast<double>(kFewestPeriods) * plan.sync_period * plan.minibatch) {
    return fmt::format("fewer than {} exchanges per epoch with {} workers and a period of {} steps", kFewestPeriods,
                       plan.workers, plan.sync_period);
  }
  return TooFar(plan, result, request.passes);
}

double Worth(const PlanRequest& request, const Candidate& c) { return request.prefer_price ? c.price : c.hours; }

bool Better(const PlanRequest& request, const Candidate& a, const Candidate& b) {
  const auto key = [&](const Candidate& c) {
    return request.prefer_price ? std::pair(c.price, c.hours) : std::pair(c.hours, c.price);
  };
  return key(a) < key(b);
}

// Fewer devices, then the simpler method, and of one method the shorter steps.
bool Plainer(const Candidate& a, const Candidate& b) {
  const bool of_one_method = a.plan.method == b.plan.method;
  const auto key = [&](const Candidate& c) {
    const CostMethod& method = MethodOf(c.plan);
    const double step = of_one_method ? method.CommonStep(c.plan) : 0;
    return std::tuple(c.result.ranks, method.Effort(c.plan), step, c.hours);
  };
  return key(a) < key(b);
}

// The best, or what is nearly as good and plainer.
Candidate Choose(const PlanRequest& request, const std::vector<Candidate>& candidates) {
  const Candidate* best = &candidates.front();
  for (const Candidate& c : candidates) {
    if (Better(request, c, *best)) best = &c;
  }
  const double limit = kNearlyAsGood * Worth(request, *best);
  for (const Candidate& c : candidates) {
    if (Worth(request, c) <= limit && Plainer(c, *best)) best = &c;
  }
  return *best;
}

std::string Share(const Candidate& c) {
  return fmt::format("{:.0f} % of the devices' time is arithmetic", 100 * c.result.compute_share);
}

std::string Explain(const PlanRequest& request, const Candidate& best, const Candidate& other) {
  std::string text =
      fmt::format("{:.3g} h with {:.0f} frames/s, {:.1f} times one device; {}; {:.2f} × the passes of serial training",
                  best.hours, best.result.frames_per_second, best.result.speedup, Share(best), best.passes);
  if (other.name.empty()) return text + "; no other method can do it here";
  text +=
      fmt::format(". The runner-up, '{}' on {} device(s), takes {:.3g} h", other.name, other.result.ranks, other.hours);
  if (Worth(request, other) <= kNearlyAsGood * Worth(request, best)) {
    text += ", which is nothing to choose between: the recommended plan has fewer devices or is the simpler method";
    return text;
  }
  if (other.result.frames_per_second < best.result.frames_per_second) {
    text += fmt::format(": {:.0f} frames/s, {}", other.result.frames_per_second, Share(other));
  }
  if (other.passes > best.passes) text += fmt::format("; it needs {:.2f} × the passes", other.passes);
  if (request.prefer_price) text += fmt::format("; it costs {:.2f} against {:.2f}", other.price, best.price);
  return text;
}

void CheckRequest(const PlanRequest& request) {
  if (request.dims.size() < 2) throw UsageError("layers must name sizes of input and output at least: \"440,1000\"");
  if (request.devices < 1) throw UsageError("devices must be 1 at least");
  if (!(request.frames >= request.minibatch)) {
    Throw<UsageError>("{:.0f} frames of data are less than one minibatch of {}", request.frames, request.minibatch);
  }
}

std::string Table(const CostNetwork& network, const Candidate& c) {
  const std::string codec = c.plan.codec.empty() ? "" : fmt::format("codec = {{ type = \"{}\" }}\n", c.plan.codec);
  const CostMethod& method = MethodOf(c.plan);
  return fmt::format("method = \"{}\"\nworkers = {}\n", method.Strategy(c.plan), c.result.ranks) +
         method.Keys(network, c.plan) + codec;
}

CostPlan Defaults(const PlanRequest& request, const std::string& method) {
  CostPlan plan;
  plan.method = method;
  plan.minibatch = request.minibatch;
  plan.optimizer_values = request.optimizer_values;
  return plan;
}

// All settings of a method but for the number of workers.
std::vector<CostPlan> VariantsOf(const PlanRequest& request, const std::string& method) {
  const double codec_gb_s =
      request.codec_gb_s > 0 ? request.codec_gb_s : request.cluster.host.gflops / kGflopsPerCodecGbS;
  const CostPlan base = Defaults(request, method);
  return MethodOf(base).Variants(base, request.devices, codec_gb_s);
}

std::optional<Candidate> Try(const PlanRequest& request, const CostNetwork& network, const CostPlan& plan,
                             std::string& objection) {
  const CostMethod& method = MethodOf(plan);
  Candidate c;
  c.plan = plan;
  c.name = method.NameOf(plan);
  try {
    c.result = SimulateCost(network, c.plan, request.cluster);
  } catch (const UsageError& e) {
    objection = e.message();
    return std::nullopt;
  }
  objection = Objection(request, c.plan, c.result);
  if (!objection.empty()) return std::nullopt;
  c.passes = PassesFactor(c.plan, c.result, request.passes);
  c.details = method.Details(network, plan);
  c.table = Table(network, c);
  c.hours = request.frames * request.epochs * c.passes / c.result.frames_per_second / 3600;
  c.price = c.hours * c.result.ranks * request.price_per_device_hour;
  if (request.largest_price > 0 && c.price > request.largest_price) {
    objection = fmt::format("costs {:.2f}, more than {:.2f}", c.price, request.largest_price);
    return std::nullopt;
  }
  return c;
}

// What was tried: candidates and first objections, by name.
struct Trials {
  std::map<std::string, std::vector<Candidate>> found;
  std::map<std::string, std::string> objections;

  void Add(const Trials& more) {
    for (const auto& [name, candidates] : more.found) {
      found[name].insert(found[name].end(), candidates.begin(), candidates.end());
    }
    objections.insert(more.objections.begin(), more.objections.end());
  }
};

void TryAll(const PlanRequest& request, const CostNetwork& network, std::vector<CostPlan> variants, Trials& trials) {
  for (CostPlan& plan : variants) {
    for (const int workers : MethodOf(plan).WorkerCounts(plan, request.devices)) {
      plan.workers = workers;
      std::string objection;
      std::optional<Candidate> candidate = Try(request, network, plan, objection);
      if (!objection.empty()) trials.objections.emplace(MethodOf(plan).NameOf(plan), objection);  // of the fewest
      if (candidate) trials.found[candidate->name].push_back(std::move(*candidate));
    }
  }
}

// Errors of the speed: docs/results/simulation.md.
std::string HowSure(const PlanRequest& request, const Candidate& c) {
  std::string text = c.result.staleness > 0 ? "speed: within a third of what was measured here"
                                            : "speed: within a fifth of what was measured here";
  if (c.plan.workers == 1) return text;
  const std::string key = MethodOf(c.plan).PassesKey(c.plan);
  if (request.passes.Of(key) > 0) return text + "; passes: as you measured them";
  if (key.empty()) return text + "; passes: not known, taken as those of ssgd with steps as large";
  if (c.passes == 1) return text + "; passes: within what published runs saw no loss at";
  if (c.passes < 1)
    return text + fmt::format("; passes: {:.2f} of plain SGD's, as in trials of a small task", c.passes);
  return text + fmt::format("; passes: {:.0f} % more are assumed, beyond what is documented", 100 * (c.passes - 1));
}

// `tried`: what came of the method's variants.
MethodOutlook OutlookOf(const PlanRequest& request, const CostNetwork& network, const std::string& method,
                        const Trials& tried) {
  MethodOutlook outlook;
  outlook.method = method;
  outlook.proposed = !VariantsOf(request, method).empty();
  Trials by_default;
  if (!outlook.proposed) {
    const CostPlan base = Defaults(request, method);
    TryAll(request, network, {MethodOf(base).Usual(base)}, by_default);
  }
  const Trials& trials = outlook.proposed ? tried : by_default;
  std::vector<Candidate> best;
  for (const auto& [name, candidates] : trials.found) best.push_back(Choose(request, candidates));
  if (!best.empty()) {
    outlook.candidate = Choose(request, best);
    outlook.how_sure = HowSure(request, outlook.candidate);
  } else {
    outlook.why_not = trials.objections.empty()
                          ? fmt::format("it needs more than the {} device(s) that there are", request.devices)
                          : trials.objections.begin()->second;
  }
  return outlook;
}

std::vector<MethodOutlook> Outlooks(const PlanRequest& request, const CostNetwork& network,
                                    const std::map<std::string, Trials>& by_method) {
  std::vector<MethodOutlook> all;
  for (const auto& [method, trials] : by_method) all.push_back(OutlookOf(request, network, method, trials));
  std::stable_sort(all.begin(), all.end(), [&](const MethodOutlook& a, const MethodOutlook& b) {
    if (a.why_not.empty() != b.why_not.empty()) return a.why_not.empty();
    return a.why_not.empty() && Better(request, a.candidate, b.candidate);
  });
  return all;
}

}  // namespace

Recommendation Recommend(const PlanRequest& request) {
  CheckRequest(request);
  const CostNetwork network(request.dims);
  std::map<std::string, Trials> by_method;
  Trials trials;
  for (const std::string& method : CostPlan::CostMethods()) {
    Trials& its = by_method[method];
    TryAll(request, network, VariantsOf(request, method), its);
    trials.Add(its);
  }
  const auto& [found, objections] = trials;
  Recommendation r;
  for (const auto& [name, objection] : objections) {
    if (found.find(name) == found.end()) r.refused.push_back({name, objection});
  }
  if (found.empty()) {
    std::string reasons;
    for (const Refusal& refusal : r.refused) reasons += fmt::format("\n  {}: {}", refusal.name, refusal.reason);
    Throw<UsageError>("no method can train this here:{}", reasons);
  }
  for (const auto& [name, candidates] : found) r.others.push_back(Choose(request, candidates));
  r.best = Choose(request, r.others);
  std::erase_if(r.others, [&](const Candidate& c) { return c.name == r.best.name; });
  std::stable_sort(r.others.begin(), r.others.end(),
                   [&](const Candidate& a, const Candidate& b) { return Better(request, a, b); });
  const auto second = std::find_if(r.others.begin(), r.others.end(),
                                   [&](const Candidate& c) { return c.plan.method != r.best.plan.method; });
  if (second != r.others.end()) {
    r.runner_up = *second;
    r.others.erase(second);
  }
  r.why = Explain(request, r.best, r.runner_up);
  if (request.all) r.all = Outlooks(request, network, by_method);
  return r;
}

}  // namespace antiphon::plan
