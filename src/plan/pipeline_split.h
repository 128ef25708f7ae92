// Which layers go to which device of a pipeline.
//
// Cost of a layer: its FLOP per frame. Errors: UsageError for splits that cannot be.
#pragma once

#include <string>
#include <vector>

#include "plan/cost_model.h"

namespace antiphon::plan {

struct PipelineSplit {
  std::vector<int> stage_layers;  // from below, none empty
  int stripes = 1;                // devices of the last stage; more than one only if it is one layer
};

/// Sizes of `stages` contiguous, non-empty parts whose largest sum is least.
std::vector<int> Balance(const std::vector<double>& costs, int stages);

/// As plan.stage_layers and plan.stripes say; what they leave open, as balances best.
PipelineSplit SplitFor(const CostNetwork& network, const CostPlan& plan);
/// FLOP per frame of the fullest device.
double LargestLoad(const CostNetwork& network, const PipelineSplit& split);
/// "layers 1–4", "layer 8 in 2 stripes".
std::vector<std::string> Describe(const PipelineSplit& split);

}  // namespace antiphon::plan
