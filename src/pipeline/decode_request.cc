#include "pipeline/decode_request.h"

#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "pipeline/bundle.h"
#include "pipeline/chosen_weights.h"

namespace antiphon::pipeline {
namespace {

// Features without the audio that they are of.
bool HasNoAudio(const DecodeRequest& request) {
  const std::filesystem::path data = request.data;
  return !std::filesystem::exists(data / "wav.scp") &&
         (!request.features.features.empty() || std::filesystem::exists(data / "feats.scp"));
}

}  // namespace

DecodeRequest WithBundle(DecodeRequest request) {
  const BundleParts parts = PartsAt(request.model);
  request.model = parts.model;
  request.graph = GraphOf(parts, request.graph);
  const std::string weights = request.weights;
  if (!parts.vad.empty() && request.vad.model.empty() && HasNoAudio(request)) {
    log::Warn("'{}' has features but no audio: everything is decoded, not speech alone", request.data);
    request.vad.model = vad::kNoVad;
  }
  CompleteBy(request, parts);
  if (request.tune) request.weights = weights;
  request.bundles_written = parts.written;
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
