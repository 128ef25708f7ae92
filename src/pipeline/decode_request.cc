#include "pipeline/decode_request.h"

#include "base/error.h"
#include "pipeline/bundle.h"
#include "pipeline/chosen_weights.h"

namespace antiphon::pipeline {

DecodeRequest WithBundle(DecodeRequest request) {
  const BundleParts parts = PartsAt(request.model);
  request.model = parts.model;
  CompleteBy(request.graph, parts.graph);
  CompleteBy(request.adaptation.graph, parts.adapt_graph);
  if (!request.tune && request.lm_weight == 0.0 && request.word_penalty == 0.0) {
    CompleteBy(request.weights, parts.weights);
  }
  if (request.rescore_arpa.empty() && request.graph_arpa.empty()) {
    request.rescore_arpa = parts.rescore_arpa;
    request.graph_arpa = parts.graph_arpa;
  }
  if (request.graph.empty()) {
    throw UsageError(
        "--graph is missing: the folder that antiphon graph made for this model (a recogniser by antiphon "
        "bundle has its own)");
  }
  return request;
}

bool UsesGivenTransforms(const DecodeRequest& options, const AcousticModel& model) {
  return model.adaptive() != nullptr && options.features.speaker_model.empty() &&
         !options.features.speaker_transforms.empty();
}

data::FeatureSourceOptions TablesAsNamed(const DecodeRequest& options, const AcousticModel& model) {
  data::FeatureSourceOptions tables = options.features;
  if (UsesGivenTransforms(options, model)) tables.speaker_transforms.clear();
  return tables;
}

decode::LatticeWeights Weights(const DecodeRequest& options, const hmm::HmmModel& model) {
  if (!options.weights.empty()) {
    if (options.lm_weight != 0.0 || options.word_penalty != 0.0)
      throw UsageError("give either --weights or --lm-weight and --word-penalty");
    return ReadChosenWeights(options.weights).weights();
  }
  const double scale =
      options.lm_weight > 0 ? 1.0 / options.lm_weight : decode::AcousticScale(options.recognize.search, model);
  return {scale, options.word_penalty};
}

infer::NnetScorerOptions NetworkOptions(const DecodeRequest& options) {
  infer::NnetScorerOptions network = options.nnet;
  network.adaptable = network.adaptable || options.profiles.any();
  return network;
}

}  // namespace antiphon::pipeline
