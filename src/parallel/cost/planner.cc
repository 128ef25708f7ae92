#include "parallel/cost/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "parallel/cost/balance.h"

namespace antiphon::parallel {
namespace {

constexpr int kFewestPeriods = 20;     // per epoch and worker
constexpr int kFewestSteps = 20;       // per epoch
constexpr double kNearlyAsGood = 1.1;  // the model is no better than that
// Devices encode about as much faster as they compute: 60 GB/s at 2000 GFLOP/s, 4 at 130 (measured).
constexpr double kGflopsPerCodecGbS = 32;
constexpr int kLargestGroup = 16;  // devices that share each layer

// From the simplest to keep an eye on to the most involved; of these only one that is clearly faster goes before.
const std::vector<std::string> kSimplestFirst = {"serial",   "ssgd",      "ssgd, bf16",     "bmuf",   "ssgd, 1-bit",
                                                 "pipeline", "averaging", "model-parallel", "hybrid", "asgd"};

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
  const double codec_gb_s =
      request.codec_gb_s > 0 ? request.codec_gb_s : request.cluster.host.gflops / kGflopsPerCodecGbS;
  for (const int accumulate : {1, 4}) {
    for (const char* codec : {"", "bf16", "one-bit"}) {
      add(*codec == 0 ? "ssgd" : fmt::format("ssgd, {}", codec == std::string("bf16") ? "bf16" : "1-bit"), "ssgd",
          [&](CostPlan& p) {
            p.codec = codec;
            p.codec_gb_s = *codec == 0 ? 0 : codec_gb_s;
            p.accumulate = accumulate;
          });
    }
  }
  for (const int period : {10, 40, 160, 400}) {
    add("averaging", "averaging", [&](CostPlan& p) { p.sync_period = period; });
    add("bmuf", "bmuf", [&](CostPlan& p) { p.sync_period = period; });
  }
  for (const int accumulate : {1, 4}) {
    add("asgd", "asgd", [&](CostPlan& p) { p.accumulate = accumulate; });
  }
  add("pipeline", "pipeline", [](CostPlan&) {});
  for (int group = 2; group <= std::min(request.devices, kLargestGroup); ++group) {
    add("model-parallel", "model-parallel", [&](CostPlan& p) { p.group = group; });
  }
  return variants;
}

// Powers of two, and all; multiples of a group.
std::vector<int> WorkerCounts(const CostPlan& plan, int devices) {
  if (plan.method == "serial") return {1};
  const int unit = plan.method == "model-parallel" ? plan.group : 1;
  std::vector<int> counts;
  for (int n = unit == 1 ? 2 : unit; n < devices; n *= 2) counts.push_back(n);
  const int all = devices / unit * unit;
  if (all > 1 && (counts.empty() || counts.back() != all)) counts.push_back(all);
  return counts;
}

// Why a plan is no good although it could be run; empty if it is.
std::string Objection(const PlanRequest& request, const CostPlan& plan, const CostResult& result) {
  // The devices of a pipeline share each minibatch, and so do those of a group.
  const double per_worker = request.frames / plan.workers * (plan.method == "model-parallel" ? plan.group : 1);
  if (plan.method != "pipeline" && per_worker < static_cast<double>(kFewestSteps) * plan.minibatch * plan.accumulate) {
    return fmt::format("{} workers would have {:.0f} frames each, fewer than {} steps per epoch", plan.workers,
                       per_worker, kFewestSteps);
  }
  const bool periodic = plan.method == "averaging" || plan.method == "bmuf";
  if (periodic && per_worker < static_cast<double>(kFewestPeriods) * plan.sync_period * plan.minibatch) {
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

// Fewer devices, then the simpler method.
bool Plainer(const Candidate& a, const Candidate& b) {
  const auto place = [](const Candidate& c) {
    return std::find(kSimplestFirst.begin(), kSimplestFirst.end(), c.name) - kSimplestFirst.begin();
  };
  return std::tuple(a.result.ranks, place(a), a.hours) < std::tuple(b.result.ranks, place(b), b.hours);
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

std::optional<Candidate> Try(const PlanRequest& request, const CostNetwork& network, const Variant& variant,
                             int workers, std::string& objection) {
  Candidate c;
  c.name = variant.name;
  c.plan = variant.plan;
  c.plan.workers = workers;
  if (c.plan.method == "model-parallel" && workers % c.plan.group != 0) return std::nullopt;
  if (c.plan.method == "model-parallel" && workers > c.plan.group) c.name = "hybrid";
  try {
    c.result = SimulateCost(network, c.plan, request.cluster);
  } catch (const UsageError& e) {
    objection = e.message();
    return std::nullopt;
  }
  objection = Objection(request, c.plan, c.result);
  if (!objection.empty()) return std::nullopt;
  c.passes = PassesFactor(c.plan, c.result, request.passes);
  if (c.plan.method == "pipeline") c.output_stripes = cost::SplitFor(network, c.plan).stripes;
  c.hours = request.frames * request.epochs * c.passes / c.result.frames_per_second / 3600;
  c.price = c.hours * c.result.ranks * request.price_per_device_hour;
  if (request.largest_price > 0 && c.price > request.largest_price) {
    objection = fmt::format("costs {:.2f}, more than {:.2f}", c.price, request.largest_price);
    return std::nullopt;
  }
  return c;
}

}  // namespace

Recommendation Recommend(const PlanRequest& request) {
  CheckRequest(request);
  const CostNetwork network(request.dims);
  std::map<std::string, std::vector<Candidate>> found;  // by name
  std::map<std::string, std::string> objections;
  for (const Variant& variant : Variants(request)) {
    for (const int workers : WorkerCounts(variant.plan, request.devices)) {
      std::string objection;
      std::optional<Candidate> candidate = Try(request, network, variant, workers, objection);
      if (!objection.empty()) objections.emplace(variant.name, objection);  // of the fewest workers
      if (candidate) found[candidate->name].push_back(std::move(*candidate));
    }
  }
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
  return r;
}

}  // namespace antiphon::parallel
