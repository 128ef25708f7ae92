// Recommends how to train a network on a cluster: method, workers, period, split of the layers, time and price.
//
// Every method that names variants (plan/cost_method.h) is tried with a range of worker counts, periods and codecs on
// the cost model; the time is that of all
// frames of all epochs, times what the method needs in further passes to reach the same accuracy (plan/passes.h). Among
// plans that are nearly as good as the best, the one with the fewest devices is recommended, then the simplest method.
// Methods without variants of their own are never recommended, because what they lose in accuracy is not known well
// enough; `all` plays them with their defaults and tells what to expect of every method.
// Errors: UsageError if the request itself is impossible, or no method can do it; the reason of each stands in it.
#pragma once

#include <string>
#include <vector>

#include "plan/passes.h"

namespace antiphon::plan {

struct PlanRequest {
  std::vector<int> dims;
  double frames = 0;  // of training data
  double epochs = 10;
  int devices = 8;  // that there are
  int minibatch = 256;
  double price_per_device_hour = 0;
  double largest_price = 0;     // 0: whatever it costs
  double optimizer_values = 0;  // that the optimiser keeps of each weight
  double codec_gb_s = 0;  // of one device, where the cluster's description has no speed of a codec; 0: by its gflops
  MeasuredPasses passes;
  bool prefer_price = false;
  bool all = false;  // tell of methods that are never recommended too
  comm::ClusterOptions cluster;
};

struct Candidate {
  CostPlan plan;
  std::string name;  // "ssgd, 1-bit"
  CostResult result;
  double passes = 1;  // factor on the epochs
  double hours = 0;
  double price = 0;
  std::string details;  // ", exchange every 40 steps"
  std::string table;    // [parallel] of an experiment that trains so
};

struct Refusal {
  std::string name;
  std::string reason;
};

/// What is to be expected of a method, or why it is none here.
struct MethodOutlook {
  std::string method;
  Candidate candidate;    // its best; without name if there is none
  std::string why_not;    // empty if there is one
  std::string how_sure;   // of its time
  bool proposed = false;  // whether it may be recommended at all
};

struct Recommendation {
  Candidate best;
  Candidate runner_up;            // of another method; without name if there is none
  std::string why;                // the best rather than the runner-up
  std::vector<Candidate> others;  // the best of each further method, fastest first
  std::vector<Refusal> refused;
  std::vector<MethodOutlook> all;  // of every method, those with a candidate first, fastest first; if it was asked for
};

Recommendation Recommend(const PlanRequest& request);

}  // namespace antiphon::plan
