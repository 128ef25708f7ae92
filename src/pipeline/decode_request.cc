#include "pipeline/decode_request.h"

#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "pipeline/bundle.h"

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
  request.nnet.adaptable = request.nnet.adaptable || request.profiles.any();
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

}  // namespace antiphon::pipeline
