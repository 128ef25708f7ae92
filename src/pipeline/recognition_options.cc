#include "pipeline/recognition_options.h"

#include "base/error.h"
#include "base/log.h"
#include "pipeline/chosen_weights.h"

namespace antiphon::pipeline {

decode::LatticeWeights ResultWeights(const RecognitionOptions& options, const hmm::HmmModel& model) {
  if (!options.weights.empty()) {
    if (options.weighs()) throw UsageError("give either weights, or lm-weight, word-penalty and risk-scale");
    return ReadChosenWeights(options.weights).weights();
  }
  const double scale =
      options.lm_weight > 0 ? 1.0 / options.lm_weight : decode::AcousticScale(options.recognize.search, model);
  return {scale, options.word_penalty, options.risk_scale};
}

double LeastContrast(const RecognitionOptions& options) {
  if (!options.vad.on() || options.vad.least_contrast == 0) return 0.0;
  double usual = 0.0;
  for (const std::string& weights : {options.weights, options.bundles_weights}) {
    if (usual == 0 && !weights.empty()) usual = ReadChosenWeights(weights).contrast;
  }
  if (usual == 0 && options.vad.least_contrast != vad::VadOptions().least_contrast) {
    log::Warn(
        "--vad-contrast {} leaves nothing out: no weights say what contrast is usual; antiphon decode --tune measures "
        "it",
        options.vad.least_contrast);
  }
  return options.vad.least_contrast * usual;
}

}  // namespace antiphon::pipeline
