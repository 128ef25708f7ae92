// One model of several: its network is an `ensemble` (nn/layers/ensemble.h) of theirs.
//
// Shapes: all models score the same states from the same features, so that their outputs stand for the same; what their
// layers look like does not matter. Priors: the logarithms' mean with the same weights, brought to the sum that
// the members' have (1; more where none are to be taken out), so that outputs less log-priors are the mean of the
// members'.
// Threads: plain functions. Errors: InputError that names the first model that does not fit the first one, and why;
// UsageError if there are fewer than two, or weights that are not as many or not positive.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nn/model.h"

namespace antiphon::nn {

struct NamedModel {
  std::string name;  // for messages
  Model model;
};

/// `weights`: of each model in the mean; empty: equal ones.
Model EnsembleOf(std::span<const NamedModel> models, const std::vector<double>& weights = {});

}  // namespace antiphon::nn
