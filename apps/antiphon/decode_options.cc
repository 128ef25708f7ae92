#include "decode_options.h"

#include "base/error.h"
#include "chosen_weights.h"
#include "train/further.h"

namespace antiphon::app {

std::string NormalisationIn(const AcousticModel& model) {
  const auto network = model.network();
  return network ? train::KindTakenBy(network->model()).normalisation : "";
}

bool UsesGivenTransforms(const DecodeCommandOptions& options, const AcousticModel& model) {
  return model.adaptive() != nullptr && options.features.speaker_model.empty() &&
         !options.features.speaker_transforms.empty();
}

data::FeatureSourceOptions TablesAsNamed(const DecodeCommandOptions& options, const AcousticModel& model) {
  data::FeatureSourceOptions tables = options.features;
  if (UsesGivenTransforms(options, model)) tables.speaker_transforms.clear();
  return tables;
}

decode::LatticeWeights Weights(const DecodeCommandOptions& options, const hmm::HmmModel& model) {
  if (!options.weights.empty()) {
    if (options.lm_weight != 0.0 || options.word_penalty != 0.0)
      throw UsageError("give either --weights or --lm-weight and --word-penalty");
    return ReadChosenWeights(options.weights).weights();
  }
  const double scale =
      options.lm_weight > 0 ? 1.0 / options.lm_weight : decode::AcousticScale(options.recognize.search, model);
  return {scale, options.word_penalty};
}

infer::NnetScorerOptions NetworkOptions(const DecodeCommandOptions& options) {
  infer::NnetScorerOptions network = options.nnet;
  network.adaptable = network.adaptable || options.profiles.any();
  return network;
}

}  // namespace antiphon::app
