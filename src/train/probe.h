// Whether a hidden layer tells kinds of speech apart (domains, speakers, noises): a fresh classifier, trained on the
// frozen layer and tried on utterances that it did not see. The head that an adversarial training fought may have died;
// this one has not.
//
// Units: share of frames, all kinds weighing alike; 1 / kinds is a guess. Threads: one caller. Deterministic.
#pragma once

#include <string>
#include <vector>

#include "train/evaluate.h"

namespace antiphon::train {

struct ProbeOptions {
  int steps = 400;
  int hidden_dim = 64;
  double learning_rate = 0.1;
};

struct ProbeResult {
  double accuracy = 0;
  int kinds = 0;             // that had enough speech; 0 if fewer than two had
  std::string missing = {};  // what there is too little of, if so
};

/// `layer`: the name of the layer looked at. Every fifth utterance of each kind is for trying.
ProbeResult Probe(const nn::Network& network, const std::string& layer, const std::vector<EvaluationData>& kinds,
                  uint64_t seed, const ProbeOptions& options = {});

}  // namespace antiphon::train
