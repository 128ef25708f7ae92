// One model of several: its network is an `ensemble` (nn/layers/ensemble.h) of theirs.
//
// All models score the same states from the same features, so that their outputs stand for the same; what their layers
// look like, and how many frames they see, does not matter. Priors: the mean of the logarithms by the same weights,
// brought to the sum that the members' have (1; more where none are to be taken out): outputs less log-priors are the
// mean of the members', but for a number that is the same for all states. A state that one of the models has never seen
// is out. What all models say of themselves alike (normalisation, held-out speech) the ensemble says too.
// Threads: plain functions. Errors: InputError that names two models that do not fit, and why; UsageError if there are
// fewer than two, or weights that are not as many or cannot be.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nn/model.h"

namespace antiphon::pipeline {

struct NamedModel {
  std::string name;  // for messages
  nn::Model model;
};

/// `weights`: of each model in the mean; empty: equal ones.
nn::Model EnsembleOf(std::span<const NamedModel> models, const std::vector<double>& weights = {});

}  // namespace antiphon::pipeline
