// Whether a hidden layer tells two kinds of speech apart: a fresh classifier, trained on the frozen layer and tried on
// frames that it did not see. The head that an adversarial training fought may have died; this one has not.
//
// Units: share of frames, both kinds weighing alike; 0.5 is a guess. Threads: one caller. Deterministic.
#pragma once

#include <string>

#include "train/evaluate.h"

namespace antiphon::train {

struct ProbeOptions {
  int steps = 400;
  int hidden_dim = 64;
  double learning_rate = 0.1;
};

/// `layer`: the name of the layer looked at. Every fifth utterance is for trying. 0 if one kind has less than a
/// minibatch.
double ProbeDomains(const nn::Network& network, const std::string& layer, const EvaluationData& a,
                    const EvaluationData& b, uint64_t seed, const ProbeOptions& options = {});

}  // namespace antiphon::train
