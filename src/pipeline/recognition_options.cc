#include "pipeline/recognition_options.h"

#include "base/error.h"
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

}  // namespace antiphon::pipeline
