// Trains an i-vector extractor: a transform by classes of speech, a mixture for all speakers, and what they differ in.
//
// Threads: computes on several; the result does not depend on how many. Errors: InputError naming table and utterance.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/feature_source.h"
#include "hmm/ivector.h"
#include "pipeline/ivectors.h"

namespace antiphon::pipeline {

/// Utterances that one vector describes, in order.
struct IvectorSpeaker {
  std::string key;
  std::vector<std::string> utterances;
};

struct TrainedExtractor {
  hmm::IvectorExtractor extractor;
  double gain = 0.0;  // nats per speaker over none
};

/// `table`: the features', for errors. Utterances without frames tell nothing; those of other dimensions than the rest
/// are refused.
TrainedExtractor TrainExtractor(const IvectorTrainingOptions& options, const data::FeatureSource& features,
                                const std::string& table, const std::vector<IvectorSpeaker>& speakers, uint64_t seed,
                                int threads);

/// Of all that a speaker says.
hmm::IvectorStats Collect(const hmm::IvectorExtractor& extractor, const data::FeatureSource& features,
                          const IvectorSpeaker& speaker);

}  // namespace antiphon::pipeline
