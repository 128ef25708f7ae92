#include "parallel/cost/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace antiphon::parallel {
namespace {

// Frames of all workers in one step.
constexpr double kSafeStep = 2880;
constexpr double kLargestStep = 16384;
constexpr double kStepSurcharge = 0.05;
constexpr double kOneBitSurcharge = 0.02;

constexpr double kSafeAveragers = 4;
constexpr double kSafeAveragingPeriod = 10;  // steps
constexpr double kAveragingSurcharge = 0.05;
constexpr double kMostAveragers = 32;

constexpr double kSafeBlockWorkers = 64;
constexpr double kSafeBlock = 120000;  // frames of a worker
constexpr double kBlockSurcharge = 0.03;
constexpr double kMostBlockWorkers = 256;

constexpr double kSafeStaleness = 3;
constexpr double kStalenessSurcharge = 0.01;
constexpr double kLargestStaleness = 16;

constexpr int kSafePipeline = 4;
constexpr double kPipelineSurcharge = 0.05;
constexpr int kLongestPipeline = 8;

double Doublings(double value, double from) { return std::max(0.0, std::log2(value / from)); }

double StepFrames(const CostPlan& plan) {
  const int replicas = plan.method == "model-parallel" ? plan.workers / plan.group : plan.workers;
  return static_cast<double>(replicas) * plan.minibatch * plan.accumulate;
}

bool IsOneBit(const CostPlan& plan) { return plan.codec == "one-bit"; }

double MeasuredFactor(const CostPlan& plan, const MeasuredPasses& m) {
  if (plan.method == "ssgd") return IsOneBit(plan) ? m.one_bit : m.ssgd;
  if (plan.method == "averaging") return m.averaging;
  if (plan.method == "bmuf") return m.bmuf;
  if (plan.method == "asgd") return m.asgd;
  if (plan.method == "pipeline") return m.pipeline;
  return plan.method == "model-parallel" ? m.model_parallel : 0;
}

}  // namespace

const std::vector<PassesRule>& PassesRules() {
  static const std::vector<PassesRule> rules = {
      {"ssgd", "none up to 2880 frames per step of all workers, 5 % per doubling beyond; refused beyond 16,384",
       "Seide 2014 saw no loss at 2880 and nearly none at 16 k once training was under way; here 1024 frames per step "
       "cost 0.4 ± 0.6 points of frame accuracy. The surcharge is assumed"},
      {"ssgd, 1-bit", "as ssgd, and 2 %",
       "Seide 2014: no or nearly no loss; here 0.6 ± 0.3 points where plain ssgd cost 0.4 ± 0.6. The surcharge is "
       "assumed"},
      {"averaging",
       "none for 4 workers that average every 10 steps; 5 % per doubling of either beyond; refused beyond 32 workers",
       "Su, Chen 2015: limited loss on 16 and 32 GPUs; here 4 workers cost 0.6 ± 0.3 points. The surcharges are "
       "assumed"},
      {"bmuf",
       "none up to 64 workers and blocks of 120,000 frames; 3 % per doubling of either beyond; refused beyond 256 "
       "workers",
       "Chen, Huo 2016: no loss on 64 GPUs, blocks of 40,000 to 120,000 frames per worker; here 4 workers cost 0.9 ± "
       "0.4 "
       "points. The surcharges are assumed"},
      {"asgd", "none up to a staleness of 3 updates, 1 % per update beyond; refused beyond 16",
       "Zhang 2013: 4 GPUs, no loss. The surcharge is assumed"},
      {"pipeline", "none up to 4 devices, 5 % per device beyond; refused beyond 8",
       "Chen 2012: no loss on 2 and 4 GPUs. The surcharge is assumed"},
      {"model-parallel", "as ssgd with one worker per group", "the same arithmetic as serial training's"},
  };
  return rules;
}

double PassesFactor(const CostPlan& plan, const CostResult& result, const MeasuredPasses& measured) {
  if (plan.workers == 1) return 1;
  if (const double factor = MeasuredFactor(plan, measured); factor > 0) return factor;
  if (plan.method == "averaging") {
    return 1 + kAveragingSurcharge *
                   (Doublings(plan.workers, kSafeAveragers) + Doublings(plan.sync_period, kSafeAveragingPeriod));
  }
  if (plan.method == "bmuf") {
    const double block = static_cast<double>(plan.sync_period) * plan.minibatch;
    return 1 + kBlockSurcharge * (Doublings(plan.workers, kSafeBlockWorkers) + Doublings(block, kSafeBlock));
  }
  if (plan.method == "asgd") {
    const double push = static_cast<double>(plan.minibatch) * plan.accumulate;
    return 1 + kStalenessSurcharge * std::max(0.0, result.staleness - kSafeStaleness) +
           kStepSurcharge * Doublings(push, kSafeStep);
  }
  if (plan.method == "pipeline") return 1 + kPipelineSurcharge * std::max(0, plan.workers - kSafePipeline);
  const double step = 1 + kStepSurcharge * Doublings(StepFrames(plan), kSafeStep);
  return step * (IsOneBit(plan) ? 1 + kOneBitSurcharge : 1.0);
}

std::string TooFar(const CostPlan& plan, const CostResult& result, const MeasuredPasses& measured) {
  if (plan.workers == 1 || MeasuredFactor(plan, measured) > 0) return "";
  const bool synchronous = plan.method == "ssgd" || plan.method == "model-parallel";
  if (synchronous && StepFrames(plan) > std::max<double>(kLargestStep, plan.minibatch)) {
    return fmt::format("a step of {:.0f} frames, beyond {:.0f}", StepFrames(plan), kLargestStep);
  }
  if (plan.method == "averaging" && plan.workers > kMostAveragers) {
    return fmt::format("averaging over {} workers, beyond {:.0f}", plan.workers, kMostAveragers);
  }
  if (plan.method == "bmuf" && plan.workers > kMostBlockWorkers) {
    return fmt::format("{} workers, beyond {:.0f}", plan.workers, kMostBlockWorkers);
  }
  if (plan.method == "asgd" && result.staleness > kLargestStaleness) {
    return fmt::format("gradients {:.0f} updates old with {} workers, beyond {:.0f}", result.staleness, plan.workers,
                       kLargestStaleness);
  }
  if (plan.method == "pipeline" && plan.workers > kLongestPipeline) {
    return fmt::format("a pipeline of {} devices, beyond {}: its lowest layers would be too stale", plan.workers,
                       kLongestPipeline);
  }
  return "";
}

}  // namespace antiphon::parallel
